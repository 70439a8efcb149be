"""Callers and sessions: identifies the caller and session of a request, and keeps the state of sessions."""
