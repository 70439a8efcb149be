"""What the gateway serves, matched on the raw request target. It does no I/O."""
