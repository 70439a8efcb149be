"""The commands of `hookgate`: a module for each, and their helpers."""
