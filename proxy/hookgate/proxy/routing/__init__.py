"""What the gateway serves, matched on the raw request target. Pure."""
