"""Approvals: people decide about tool calls for which hooks decide `ask`."""
