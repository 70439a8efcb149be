"""How much of sessions is kept, in a database or in memory. These bounds cannot be configured."""

MAX_SESSIONS = 10_000
"""Sessions that each key may have in a database, or all keys in memory."""

MAX_KEY_BYTES = 256 * 1024 * 1024
"""Bytes of effects that the sessions of each key may have in a database, or those of all keys in memory."""

MAX_SESSION_BYTES = 8 * 1024 * 1024
"""Bytes of effects that one session may have; the oldest are removed."""
