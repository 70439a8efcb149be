"""Recorded calls put through another policy: what it would have decided otherwise, before it is in force."""
