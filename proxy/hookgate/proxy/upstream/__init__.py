"""The client for the upstreams, with its credentials and its pool of connections."""
