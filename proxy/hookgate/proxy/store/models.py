"""The tables. Each change of one is a step in migrations/versions as well."""

from sqlalchemy import BigInteger, Double, Index, Integer, LargeBinary, MetaData, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """What all tables have in common. Constraints have names, so that a later step can change them."""

    metadata = MetaData(naming_convention=_NAMES)


class Counter(Base):
    """A number that many calls add to."""

    __tablename__ = "counters"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    total: Mapped[float] = mapped_column(Double)
    expires: Mapped[int] = mapped_column(BigInteger, index=True)
    """Seconds since 1970, after which nobody asks for it."""


class AuditWriter(Base):
    """One run of one gateway, which writes a chain of records."""

    __tablename__ = "audit_writers"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    """Its registration, in canonical JSON."""
    hash: Mapped[bytes] = mapped_column(LargeBinary)
    """Of the registration: what its first record names as the one before it."""
    ended: Mapped[str] = mapped_column(Text)
    """Empty while it may write; `closed` by itself, or `recovered` by another after it had died."""


_ENDED_CALLS = text("outcome IS NOT NULL")
_KEPT_IN_ORDER = BigInteger().with_variant(Integer(), "sqlite")


class AuditRecord(Base):
    """One record. Columns beside its body are there to find it by; all of it is in its hash."""

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
    """The order in which records were written; of one writer that is the order of its chain."""
    writer: Mapped[int] = mapped_column(Integer)
    """The number of its writer."""
    seq: Mapped[int] = mapped_column(BigInteger)
    """Its place in the writer's chain, from 1."""
    at: Mapped[int] = mapped_column(BigInteger)
    """Milliseconds since 1970."""
    type: Mapped[str] = mapped_column(Text)
    id: Mapped[bytes] = mapped_column(LargeBinary, index=True)
    """Of the call's receipt."""
    session: Mapped[str | None] = mapped_column(Text)
    """This and the next: of a call that has ended, and of no other record."""
    key: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    outcome: Mapped[str | None] = mapped_column(Text)
    body: Mapped[bytes] = mapped_column(LargeBinary)
    """Packed JSON."""
    previous: Mapped[bytes] = mapped_column(LargeBinary)
    hash: Mapped[bytes] = mapped_column(LargeBinary)
    content_sha256: Mapped[bytes | None] = mapped_column(LargeBinary)


class AuditContent(Base):
    """What was said, of a record that has any."""

    __tablename__ = "audit_content"

    writer: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """Packed JSON."""


class AuditOpen(Base):
    """A call that has begun and not ended, as far as its writer has told."""

    __tablename__ = "audit_open"

    id: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    writer: Mapped[int] = mapped_column(Integer)
