"""The commands of `hookgate`, one module each."""
