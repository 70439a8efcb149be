"""The tables. Each change of one is a step in migrations/versions as well."""

from sqlalchemy import BigInteger, Double, MetaData, Text
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
