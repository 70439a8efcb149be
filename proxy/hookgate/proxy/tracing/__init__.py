"""Traces for OpenTelemetry, made of calls' records once they have ended.

Nothing here imports OpenTelemetry but `sending`, which is imported when a collector is configured.
"""
