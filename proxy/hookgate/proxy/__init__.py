"""The gateway: routes, the exchange with the upstream, and the command line."""

__version__ = "0.1.0"
