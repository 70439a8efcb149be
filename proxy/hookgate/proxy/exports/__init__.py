"""Exports: they send the audit's records to where a team keeps its records, at least once and in order."""
