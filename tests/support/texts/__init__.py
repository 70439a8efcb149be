"""Texts with made-up secrets, with instructions for a model, and with neither."""
