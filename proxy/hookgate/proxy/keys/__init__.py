"""Clients' keys: those of the configuration, those issued to teams, and tokens of an identity provider."""
