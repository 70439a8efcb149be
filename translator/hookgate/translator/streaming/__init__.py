"""Streamed answers: their framing, and edits of texts that span several events."""
