"""Callers and sessions: who makes a request, in which session, and what is remembered of it."""
