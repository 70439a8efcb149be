"""Sockets, connections and requests: the only package that uses aiohttp's internals."""
