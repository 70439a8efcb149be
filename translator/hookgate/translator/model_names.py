"""The names of models, which the routes need before any body is read."""

MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""A regular expression for names of models, which become part of a path."""
