"""Hooks, policies and runners for tests."""
