"""The tables. Each change needs a migration in migrations/versions as well."""

from sqlalchemy import (
    BigInteger,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base class of all tables. Constraints have names, so that later migrations can change them."""

    metadata = MetaData(naming_convention=_NAMES)


class Counter(Base):
    """A number to which calls add."""

    __tablename__ = "counters"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    total: Mapped[float] = mapped_column(Double)
    expires: Mapped[int] = mapped_column(BigInteger, index=True)
    """When the counter is not needed any more, in seconds since 1970."""


class AuditWriter(Base):
    """A writer: one run of a gateway, which writes a chain of records."""

    __tablename__ = "audit_writers"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    """Its registration, in canonical JSON."""
    hash: Mapped[bytes] = mapped_column(LargeBinary)
    """The hash of the registration, which the first record contains as the previous hash."""
    ended: Mapped[str] = mapped_column(Text)
    """Empty while it may write; `closed` by itself, or `recovered` by another writer after it died."""


_ENDED_CALLS = text("outcome IS NOT NULL")
_KEPT_IN_ORDER = BigInteger().with_variant(Integer(), "sqlite")


class AuditRecord(Base):
    """A record. Some columns only serve to find it; the record itself is completely covered by its hash."""

    __tablename__ = "audit_records"
    __table_args__ = tuple(
        Index(
            f"ix_audit_records_{column}",
            column,
            "position",
            sqlite_where=_ENDED_CALLS,
            postgresql_where=_ENDED_CALLS,
        )
        for column in ("session", "key", "model", "outcome")
    )

    position: Mapped[int] = mapped_column(_KEPT_IN_ORDER, primary_key=True)
    """The order in which records were written, which for one writer is the order of its chain."""
    writer: Mapped[int] = mapped_column(Integer)
    """The number of its writer."""
    seq: Mapped[int] = mapped_column(BigInteger)
    """Its number in the writer's chain, from 1."""
    at: Mapped[int] = mapped_column(BigInteger)
    """Milliseconds since 1970."""
    type: Mapped[str] = mapped_column(Text)
    id: Mapped[bytes] = mapped_column(LargeBinary, index=True)
    """The id of the call's receipt."""
    session: Mapped[str | None] = mapped_column(Text)
    """Set, like the next columns, only for a call that has ended."""
    key: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    outcome: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """Packed JSON."""
    previous: Mapped[bytes] = mapped_column(LargeBinary)
    hash: Mapped[bytes] = mapped_column(LargeBinary)
    content_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)


class AuditContent(Base):
    """The content of a record, if it has any."""

    __tablename__ = "audit_content"

    writer: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """Packed JSON."""


class AuditOpen(Base):
    """A call whose start is recorded and whose end is not."""

    __tablename__ = "audit_open"

    id: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    writer: Mapped[int] = mapped_column(Integer)


class StoredSession(Base):
    """The state of a session that several processes share."""

    __tablename__ = "sessions"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    """The name of its caller's key."""
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    first: Mapped[int] = mapped_column(BigInteger)
    """The version with which it began: greater than all versions of a former session with the same id."""
    version: Mapped[int] = mapped_column(BigInteger)
    """Grows with each change."""
    document: Mapped[bytes] = mapped_column(LargeBinary)
    """Its state without the effects of hooks, in JSON."""
    size: Mapped[int] = mapped_column(BigInteger)
    """Bytes of its effects; more than there are if some were replaced."""
    used: Mapped[int] = mapped_column(BigInteger, index=True)
    """About when it was last used, in seconds since 1970."""


class SessionEffect(Base):
    """What hooks did to one result or turn of a session."""

    __tablename__ = "session_effects"
    __table_args__ = (
        ForeignKeyConstraint(["key", "session"], ["sessions.key", "sessions.id"], ondelete="CASCADE"),
        Index("ix_session_effects_version", "key", "session", "version"),
    )

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    session: Mapped[str] = mapped_column(Text, primary_key=True)
    identity: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger)
    """The version of the session since which the effect is known."""
    document: Mapped[bytes] = mapped_column(LargeBinary)
    """The effect in JSON, with the result that replaces the tool's."""


class SessionName(Base):
    """A name by which a call finds its session: a hash of a prompt, or the id of a conversation."""

    __tablename__ = "session_names"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    session: Mapped[str] = mapped_column(Text)
    used: Mapped[int] = mapped_column(BigInteger, index=True)


class AcceptedKey(Base):
    """A key with which the model has answered calls, so that its sessions have a share of their own."""

    __tablename__ = "accepted_keys"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    used: Mapped[int] = mapped_column(BigInteger, index=True)
