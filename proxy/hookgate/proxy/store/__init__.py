"""What outlives the gateway, or is shared by several: a database, opened when something needs it."""

from hookgate.proxy.store.errors import StoreError
from hookgate.proxy.store.store import Store

__all__ = ["Store", "StoreError"]
