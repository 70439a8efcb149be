"""The gateway: routes, the exchange with the upstream, and the command line."""

__version__ = "0.1.0"

GEMINI_API = "https://generativelanguage.googleapis.com"
"""The default upstream."""
