"""Sessions: how a call's session is found, and what is remembered of it."""
