"""Replays recorded calls with other hooks, and compares what these decide."""
