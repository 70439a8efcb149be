"""Checks and views that the laws of the translator use."""
