"""The index of calls, which replaces indexes of records; and an index of each writer's records.

The index of calls is filled by gateways and commands. That of writers is built here, which blocks a server's
calls for about a second for each million of records. It can be built before, without blocking any:
CREATE INDEX CONCURRENTLY ix_audit_records_writer ON audit_records (writer, seq).
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_FIELDS = ("key", "owner", "team", "session", "model", "asked", "agent", "outcome", "reason")
_CALLER = ("key", "owner", "team", "model", "asked", "agent", "outcome")
_SUMS = ("calls", "edited", "input_tokens", "output_tokens")


def upgrade() -> None:
    """From a database in which calls are found by indexes of the records. No row is changed."""
    op.create_index("ix_audit_records_writer", "audit_records", ["writer", "seq"], if_not_exists=True)
    for name in ("session", "key", "model", "outcome"):
        op.drop_index(f"ix_audit_records_{name}", "audit_records", if_exists=True)
    op.create_table(
        "audit_index",
        sa.Column("version", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("gaps", sa.Text(), nullable=False),
        sa.Column("removals", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_audit_index"),
    )
    op.create_table(
        "audit_names",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit_names"),
        sa.UniqueConstraint("field", "name", name="uq_audit_names_field"),
    )
    _create_calls()
    _create_sums("call", _CALLER, _SUMS, "cost")
    _create_sums("session", ("session", *_CALLER), _SUMS, "cost")
    _create_sums(
        "finding",
        ("found", "hook", "event", "key", "owner", "team", "model", "agent"),
        ("calls", "findings"),
        "",
    )
    _create_sums(
        "hook",
        ("hook", "event", "team", "observes", "bucket"),
        ("calls", "runs", "denials", "edits", "failures"),
        "duration",
    )


def _create_calls() -> None:
    position = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "audit_calls",
        sa.Column("position", position, nullable=False, autoincrement=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _FIELDS),
        sa.Column("edited", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_audit_calls"),
    )
    op.create_index("ix_audit_calls_at", "audit_calls", ["at"])
    for name in _FIELDS:
        op.create_index(f"ix_audit_calls_{name}", "audit_calls", [name, "at", "position"])
    op.create_table(
        "audit_call_marks",
        sa.Column("position", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("name", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("position", "name", name="pk_audit_call_marks"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_audit_call_marks_name", "audit_call_marks", ["name", "at", "position"])


def _create_sums(name: str, fields: tuple[str, ...], sums: tuple[str, ...], amount: str) -> None:
    for table in (f"audit_{name}_hours", f"audit_{name}_days"):
        op.create_table(
            table,
            sa.Column("period", sa.Integer(), nullable=False, autoincrement=False),
            *(sa.Column(field, sa.Integer(), nullable=False, autoincrement=False) for field in fields),
            *(sa.Column(each, sa.BigInteger(), nullable=False) for each in sums),
            *([sa.Column(amount, sa.Double(), nullable=False)] if amount else []),
            sa.PrimaryKeyConstraint("period", *fields, name=f"pk_{table}"),
            sqlite_with_rowid=False,
        )
