"""The tables of issued keys and of their usage. Every function is one short transaction, and may block."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, insert, select, update

from hookgate.proxy.store.database import Database
from hookgate.proxy.store.execution import StoredTable
from hookgate.proxy.store.models import issued_key_usage, issued_keys


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An issued key as it is stored. Times are in seconds since 1970."""

    id: str
    owner: str
    team: str
    note: str
    hash: bytes
    """The keyed hash of the key."""
    pepper: bytes
    """The fingerprint of the secret with which it was hashed."""
    scope: str
    """What the key may be used for, in JSON."""
    created: int
    expires: int | None = None
    revoked: int | None = None
    previous_hash: bytes | None = None
    """The hash of the key before the last rotation."""
    previous_until: int | None = None
    """When that key stops being valid."""


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """What was used with a key. `cost` is in the currency of the price table."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    last_used: int = 0
    """In seconds since 1970; 0 if it was never used."""

    def __add__(self, other: "KeyUsage") -> "KeyUsage":
        return KeyUsage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
            max(self.last_used, other.last_used),
        )


DAY_SECONDS = 24 * 3600


class KeyTable(StoredTable):
    """Issued keys in a database. Every method raises StoreError if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "keys")

    def find(self, key_id: str) -> StoredKey | None:
        """Return the key with an ID, or None."""
        found = self._select(select(issued_keys).where(issued_keys.c.id == key_id))
        return _stored(found[0]) if found else None

    def all(self) -> list[StoredKey]:
        """Return all keys, the oldest first, and those of the same second by owner."""
        columns = issued_keys.c
        query = select(issued_keys).order_by(columns.created, columns.owner, columns.id)
        return [_stored(row) for row in self._select(query)]

    def peppers(self) -> set[bytes]:
        """Return the fingerprints of the secrets with which keys that are not revoked were hashed."""
        query = select(issued_keys.c.pepper).where(issued_keys.c.revoked.is_(None)).distinct()
        return {row["pepper"] for row in self._select(query)}

    def add(self, key: StoredKey) -> None:
        """Store a new key."""
        self._write(insert(issued_keys).values(asdict(key)))

    def rotate(self, key: StoredKey, new_hash: bytes, pepper: bytes, previous_until: int) -> bool:
        """Replace the key's hash. Returns False if the key was changed since it was read, or is revoked."""
        current = (issued_keys.c.id == key.id) & (issued_keys.c.hash == key.hash)
        values = {
            "hash": new_hash,
            "pepper": pepper,
            "previous_hash": key.hash,
            "previous_until": previous_until,
        }
        return self._write(update(issued_keys).where(current, issued_keys.c.revoked.is_(None)).values(values))

    def revoke(self, key_id: str, at: int) -> bool:
        """Revoke a key. Returns False if it was revoked before."""
        valid = (issued_keys.c.id == key_id) & issued_keys.c.revoked.is_(None)
        return self._write(update(issued_keys).where(valid).values(revoked=at))

    def usage(self, since: int = 0) -> dict[str, KeyUsage]:
        """Return the usage of each key that was used, from the day of `since`, in seconds since 1970."""
        columns = issued_key_usage.c
        query = (
            select(
                columns.key,
                func.sum(columns.calls).label("calls"),
                func.sum(columns.input_tokens).label("input_tokens"),
                func.sum(columns.output_tokens).label("output_tokens"),
                func.sum(columns.cost).label("cost"),
                func.max(columns.last_used).label("last_used"),
            )
            .where(columns.day >= since // DAY_SECONDS)
            .group_by(columns.key)
        )
        return {
            row["key"]: KeyUsage(
                int(row["calls"]),
                int(row["input_tokens"]),
                int(row["output_tokens"]),
                float(row["cost"]),
                int(row["last_used"]),
            )
            for row in self._select(query)
        }

    def add_usage(self, usage: Mapping[tuple[str, int], KeyUsage]) -> None:
        """Add usage by key and day, which is a number since 1970."""
        row = self._database.insert(issued_key_usage)
        # The larger of two numbers: SQLite calls this max, PostgreSQL greatest.
        larger = func.max if self._database.is_file else func.greatest
        sums = {name: issued_key_usage.c[name] + row.excluded[name] for name in _SUMS}
        last = larger(issued_key_usage.c.last_used, row.excluded.last_used)
        add = row.on_conflict_do_update(index_elements=["key", "day"], set_={**sums, "last_used": last})
        # In order, so that two gateways cannot wait for each other.
        rows = [{"key": key, "day": day, **asdict(used)} for (key, day), used in sorted(usage.items())]
        self._write(add, rows)


_SUMS = ("calls", "input_tokens", "output_tokens", "cost")


def _stored(row: Mapping[str, Any]) -> StoredKey:
    return StoredKey(**row)
