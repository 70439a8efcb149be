"""One call, from its request to the end of its answer."""
