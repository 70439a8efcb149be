"""Sockets, connections and requests: the one place that knows the internals of aiohttp."""
