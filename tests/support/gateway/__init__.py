"""Gateways in this process: with hooks, audits, keys, sessions, Live sessions and the panel."""
