"""Observation of calls: their records, receipts, log lines, metrics and traces."""
