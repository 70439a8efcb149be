"""The credentials of the gateway's own. Only the client for the upstreams uses this package."""
