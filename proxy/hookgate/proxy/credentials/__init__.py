"""The gateway's credentials. Only the client for the upstreams uses this package."""
