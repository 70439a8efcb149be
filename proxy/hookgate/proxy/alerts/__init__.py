"""Alerts: rules that count calls in the index of the audit, and the receivers that are told."""
