"""`hookgate init`: writes a first configuration for a chosen use."""
