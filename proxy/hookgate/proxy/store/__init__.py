"""State that outlives the gateway or is shared by several: a database, opened when it is needed."""

from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.store import Store

__all__ = ["Store", "StoreError"]
