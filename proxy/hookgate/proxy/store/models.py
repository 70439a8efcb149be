"""The tables. Each change needs a migration in migrations/versions as well, whose name is then `NEWEST`."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

NEWEST = "0015"
"""The version of these tables: the name of the last migration."""

# Constraints have names, so that later migrations can change them.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

counters = Table(
    "counters",
    metadata,
    Column("key", Text, primary_key=True),
    Column("total", Double, nullable=False),
    # When the counter is not needed any more, in seconds since 1970.
    Column("expires", BigInteger, nullable=False, index=True),
)
"""Numbers to which calls add."""

audit_writers = Table(
    "audit_writers",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    # Its registration, in canonical JSON.
    Column("document", LargeBinary, nullable=False),
    # The hash of the registration, which the first record contains as the previous hash.
    Column("hash", LargeBinary, nullable=False),
    # Empty while it may write; `closed` by itself, or `recovered` by another writer after it died.
    Column("ended", Text, nullable=False),
)
"""The writers. A writer is one run of a gateway, which writes a chain of records."""

_KEPT_IN_ORDER = BigInteger().with_variant(Integer(), "sqlite")

audit_records = Table(
    "audit_records",
    metadata,
    # The order in which records were written, which for one writer is the order of its chain.
    Column("position", _KEPT_IN_ORDER, primary_key=True),
    # The number of its writer, and its number in the writer's chain, from 1.
    Column("writer", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # Milliseconds since 1970.
    Column("at", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    # The ID of the call's receipt.
    Column("id", LargeBinary, nullable=False, index=True),
    # These four are set only for a call that has ended.
    Column("session", Text),
    Column("key", Text),
    Column("model", Text),
    Column("outcome", Text),
    # Packed JSON.
    Column("body", LargeBinary, nullable=False),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("content_sha256", LargeBinary),
    Index("ix_audit_records_writer", "writer", "seq"),
)
"""Records. Some columns only serve to find a record, which itself is completely covered by its hash."""

audit_content = Table(
    "audit_content",
    metadata,
    Column("writer", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # Packed JSON.
    Column("data", LargeBinary, nullable=False),
)
"""The content of records that have any."""

audit_open = Table(
    "audit_open",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("writer", Integer, nullable=False),
)
"""The calls whose start is recorded and whose end is not."""

audit_index = Table(
    "audit_index",
    metadata,
    # Which version of the index it is; only rows of the newest one are used.
    Column("version", Integer, primary_key=True, autoincrement=False),
    # The last position of a record that was looked at.
    Column("position", BigInteger, nullable=False),
    # Positions before it at which no record was found yet, in JSON.
    Column("gaps", Text, nullable=False),
    # Changes whenever names are removed, whose numbers others may remember.
    Column("removals", BigInteger, nullable=False),
)
"""How far the index of calls has come. All its tables are made from the records, and can be made again."""

audit_names = Table(
    "audit_names",
    metadata,
    Column("number", Integer, primary_key=True),
    # What it names, such as `team`.
    Column("field", Text, nullable=False),
    Column("name", Text, nullable=False),
    # The number of calls that had it, including those that retention has removed.
    Column("calls", BigInteger, nullable=False),
    # The last hour in which a call had it, in hours since 1970.
    Column("used", Integer, nullable=False),
    UniqueConstraint("field", "name", name="uq_audit_names_field"),
)
"""The names and texts by which calls are found. The other tables have their numbers, and 0 for none."""

INDEXED_FIELDS = ("key", "owner", "team", "session", "model", "asked", "agent", "outcome", "reason")
"""The columns of `audit_calls` with numbers of names."""

audit_calls = Table(
    "audit_calls",
    metadata,
    # The position of the record of its end.
    Column("position", _KEPT_IN_ORDER, primary_key=True, autoincrement=False),
    # When it ended, in milliseconds since 1970.
    Column("at", BigInteger, nullable=False, index=True),
    *(Column(field, Integer, nullable=False) for field in INDEXED_FIELDS),
    # Whether a hook has edited it: 1 or 0.
    Column("edited", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
    # Milliseconds from its headers to its end.
    Column("duration", Double, nullable=False),
    *(Index(f"ix_audit_calls_{field}", field, "at", "position") for field in INDEXED_FIELDS),
)
"""The calls and events that have ended, one row each."""

audit_call_marks = Table(
    "audit_call_marks",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Index("ix_audit_call_marks_name", "name", "at", "position"),
    sqlite_with_rowid=False,
)
"""Names of which a call may have several: hooks with an effect, their events, findings, blocked tools.

Changes of policy and keys, which are no calls, have a mark, too.
"""

_SUMS = ("calls", "edited", "input_tokens", "output_tokens")


class SumTables(NamedTuple):
    """Two tables with the same sums by the numbers of names, one by hour and one by day."""

    hours: Table
    days: Table


def _sum_tables(name: str, fields: Iterable[str], sums: Iterable[str], amount: str) -> SumTables:
    hours, days = (
        Table(
            f"audit_{name}_{period}",
            metadata,
            # The number of the hour or day since 1970 in UTC.
            Column("period", Integer, primary_key=True, autoincrement=False),
            *(Column(field, Integer, primary_key=True, autoincrement=False) for field in fields),
            *(Column(each, BigInteger, nullable=False) for each in sums),
            *([Column(amount, Double, nullable=False)] if amount else []),
            sqlite_with_rowid=False,
        )
        for period in ("hours", "days")
    )
    return SumTables(hours, days)


CALLER_FIELDS = ("key", "owner", "team", "model", "asked", "agent", "outcome")

call_sums = _sum_tables("call", CALLER_FIELDS, _SUMS, "cost")
"""Sums of calls."""

session_sums = _sum_tables("session", ("session", *CALLER_FIELDS), _SUMS, "cost")
"""Sums of calls by session."""

finding_sums = _sum_tables(
    "finding",
    ("found", "hook", "event", "key", "owner", "team", "model", "agent"),
    ("calls", "findings"),
    "",
)
"""Sums of what hooks have found, by kind."""

hook_sums = _sum_tables(
    "hook",
    # `observes` is 1 in observe mode; `bucket` is that of the time of a call's runs.
    ("hook", "event", "team", "observes", "bucket"),
    ("calls", "runs", "denials", "edits", "failures"),
    "duration",
)
"""Sums of the runs of hooks."""

INDEX_TABLES = (
    *(audit_calls, audit_call_marks, audit_names, audit_index),
    *(*call_sums, *session_sums, *finding_sums, *hook_sums),
)
"""The tables of the index of calls."""

exports = Table(
    "exports",
    metadata,
    Column("name", Text, primary_key=True),
    # The process that sends, and until when nobody else may, in seconds since 1970. Empty if nobody does.
    Column("holder", Text, nullable=False),
    Column("until", Double, nullable=False),
    # Whether it has positions: 1 or 0.
    Column("begun", Integer, nullable=False),
    # The last error, and when it occurred, in milliseconds since 1970. Empty once records are accepted.
    Column("error", Text, nullable=False),
    Column("error_at", BigInteger, nullable=False),
    # The number of records that retention removed before they were sent.
    Column("missed", BigInteger, nullable=False),
)
"""The exports of the audit's records."""

export_positions = Table(
    "export_positions",
    metadata,
    Column("export", Text, primary_key=True),
    # The number of a writer, and the hash of its registration: another database has another writer with it.
    Column("writer", Integer, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    # The last of its records that was sent or set aside.
    Column("seq", BigInteger, nullable=False),
    # Whether all records of a writer that has ended were: 1 or 0.
    Column("done", Integer, nullable=False),
)
"""How far each export has come with the records of each writer."""

export_refusals = Table(
    "export_refusals",
    metadata,
    Column("export", Text, primary_key=True),
    # The name of the record's writer, and its number in the writer's chain.
    Column("writer", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # The ID of the call's receipt.
    Column("id", LargeBinary, nullable=False),
    # When it was refused, in milliseconds since 1970.
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)
"""The records that a receiver has refused."""

sessions = Table(
    "sessions",
    metadata,
    # The name of its caller's key.
    Column("key", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    # The version with which it began: greater than all versions of a former session with the same ID.
    Column("first", BigInteger, nullable=False),
    # Grows with each change.
    Column("version", BigInteger, nullable=False),
    # Its state without the effects of hooks, in JSON.
    Column("document", LargeBinary, nullable=False),
    # Bytes of its effects; more than there are if some were replaced.
    Column("size", BigInteger, nullable=False),
    # About when it was last used, in seconds since 1970.
    Column("used", BigInteger, nullable=False, index=True),
)
"""The states of sessions that several processes share."""

session_effects = Table(
    "session_effects",
    metadata,
    Column("key", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    Column("identity", Text, primary_key=True),
    # The version of the session since which the effect is known.
    Column("version", BigInteger, nullable=False),
    # The effect in JSON, with the result that replaces the tool's.
    Column("document", LargeBinary, nullable=False),
    ForeignKeyConstraint(["key", "session"], ["sessions.key", "sessions.id"], ondelete="CASCADE"),
    Index("ix_session_effects_version", "key", "session", "version"),
)
"""What hooks did to the results and turns of sessions."""

session_notes = Table(
    "session_notes",
    metadata,
    Column("key", Text, primary_key=True),
    Column("session", Text, primary_key=True),
    # The version of the session since which there is the note.
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    # The name under which a policy finds it.
    Column("name", Text, nullable=False),
    # Empty for the first one that did not fit.
    Column("note", LargeBinary, nullable=False),
    # Bytes of the session's notes up to it; more than they may have if it did not fit.
    Column("total", BigInteger, nullable=False),
    ForeignKeyConstraint(["key", "session"], ["sessions.key", "sessions.id"], ondelete="CASCADE"),
)
"""What policies noted on sessions."""

session_names = Table(
    "session_names",
    metadata,
    Column("key", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("used", BigInteger, nullable=False, index=True),
)
"""The names by which calls find their sessions: a hash of a prompt, or the ID of a conversation."""

accepted_keys = Table(
    "accepted_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("used", BigInteger, nullable=False, index=True),
)
"""The keys with which the model has answered calls, so that their sessions have a share of their own."""

issued_keys = Table(
    "issued_keys",
    metadata,
    # The public part of a key.
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("previous_hash", LargeBinary),
    # Times are in seconds since 1970.
    Column("previous_until", BigInteger),
    Column("pepper", LargeBinary, nullable=False),
    Column("scope", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
)
"""The keys that the gateway has issued, as keyed hashes."""

issued_key_usage = Table(
    "issued_key_usage",
    metadata,
    Column("key", Text, primary_key=True),
    Column("day", BigInteger, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
    Column("last_used", BigInteger, nullable=False),
)
"""What was used with each issued key, by day."""

policy_revisions = Table(
    "policy_revisions",
    metadata,
    # One more than that of the revision on which it is based.
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # The number of the revision on which it is based; 0 for the first one.
    Column("parent", BigInteger, nullable=False),
    # The SHA-256 of the document, which is the text of a settings file.
    Column("sha256", LargeBinary, nullable=False),
    Column("document", Text, nullable=False),
    # In seconds since 1970.
    Column("pushed", BigInteger, nullable=False),
    Column("pushed_by", Text, nullable=False),
    Column("message", Text, nullable=False),
    # The number of the revision whose document was pushed again by a rollback.
    Column("restores", BigInteger),
)
"""The revisions of the policy that was pushed. Rows are added, and never changed."""

pinned_tools = Table(
    "pinned_tools",
    metadata,
    Column("name", Text, primary_key=True),
    # The SHA-256 of the document, by which a process notices that another one has changed it.
    Column("sha256", LargeBinary, nullable=False),
    # The accepted and the changed declarations, in JSON.
    Column("document", LargeBinary, nullable=False),
)
"""The tools whose declarations the policy `tools` has pinned."""

interactions = Table(
    "interactions",
    metadata,
    # The name of its caller's key.
    Column("key", Text, primary_key=True),
    # Its name with that of its project and location, if it has these.
    Column("name", Text, primary_key=True),
    Column("session", Text, nullable=False),
    # The policy revision under which its request was judged.
    Column("revision", Text, nullable=False),
    # The name of the interaction that it continues.
    Column("previous", Text),
    # Whether all turns before it have passed, and whether its own answer has: 1 or 0.
    Column("continues_known", Integer, nullable=False),
    Column("passed", Integer, nullable=False),
    # Whether the tokens that it used were counted: 1 or 0.
    Column("counted", Integer, nullable=False),
    # The turns of its request and its answer, in JSON, if they are stored.
    Column("request", LargeBinary),
    Column("answer", LargeBinary),
    # In seconds since 1970.
    Column("created", BigInteger, nullable=False, index=True),
    # The tokens of its conversation up to its answer, which calls that continue it use again.
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    # The tokens that limits have counted when it began in the background.
    Column("estimated_input", BigInteger, nullable=False, server_default="0"),
    Column("estimated_output", BigInteger, nullable=False, server_default="0"),
)
"""The interactions that were judged, whose turns are stored at Google."""

panel_sessions = Table(
    "panel_sessions",
    metadata,
    # A hash of the cookie and the admin token, from which neither can be derived.
    Column("digest", LargeBinary, primary_key=True),
    # The SHA-256 of the proof that the page sends in addition to the cookie.
    Column("proof", LargeBinary, nullable=False),
    # What identifies the person at the provider; empty for holders of the admin token.
    Column("subject", Text, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    # In milliseconds since 1970.
    Column("ends", BigInteger, nullable=False),
)
"""The browsers that are signed in to the panel."""

panel_keys = Table(
    "panel_keys",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
)
"""Random keys that the panels of all gateways share."""

alerts = Table(
    "alerts",
    metadata,
    Column("rule", Text, primary_key=True),
    # The names of its group, in a JSON list.
    Column("subject", Text, primary_key=True),
    # The percentage of the rule's threshold.
    Column("level", Integer, primary_key=True, autoincrement=False),
    # All times here are in milliseconds since 1970.
    Column("since", BigInteger, nullable=False),
    Column("value", Double, nullable=False),
    # Since when the value is not above the threshold. For trouble of a gateway, when it was last seen.
    Column("calm", BigInteger),
    # The message that says that it fires, in JSON; empty as long as nobody was told, as during a silence.
    Column("told", Text, nullable=False),
)
"""The alerts that are firing."""

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    Column("number", _KEPT_IN_ORDER, primary_key=True),
    # The ID of the message, which is the same for all receivers.
    Column("message", Text, nullable=False),
    Column("rule", Text, nullable=False),
    # `firing` or `resolved`.
    Column("state", Text, nullable=False),
    Column("receiver", Text, nullable=False),
    # The message in JSON.
    Column("document", Text, nullable=False),
    Column("created", BigInteger, nullable=False, index=True),
    # When to try to deliver it; empty once it was delivered or given up.
    Column("due", BigInteger),
    Column("tries", Integer, nullable=False),
    Column("delivered", BigInteger),
    # Why the last attempt failed.
    Column("error", Text, nullable=False),
    Index("ix_alert_deliveries_receiver", "receiver", "number"),
)
"""What receivers are told, and whether they were."""

alert_silences = Table(
    "alert_silences",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("until", BigInteger, nullable=False),
    # Who has silenced it.
    Column("silenced_by", Text, nullable=False),
)
"""Rules of which nobody is told for some time."""

alert_lease = Table(
    "alert_lease",
    metadata,
    Column("name", Text, primary_key=True),
    # The gateway that evaluates the rules, and until when nobody else may, in seconds since 1970.
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)
"""Which of several gateways evaluates the rules."""

approvals = Table(
    "approvals",
    metadata,
    Column("id", Text, primary_key=True),
    # The name of its caller's key, the session, and the ID of the call whose answer contains the tool call.
    Column("key", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("call", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("tool", Text, nullable=False),
    # The SHA-256 of what identifies the tool and its arguments.
    Column("digest", LargeBinary, nullable=False),
    # The arguments in JSON.
    Column("arguments", Text, nullable=False),
    # The names of the hooks that asked, in JSON, and their reason.
    Column("hooks", Text, nullable=False),
    Column("why", Text, nullable=False),
    # All times here are in milliseconds since 1970.
    Column("created", BigInteger, nullable=False),
    # When it can no longer be decided, and its approval no longer be used.
    Column("expires", BigInteger, nullable=False),
    # How many persons must approve it.
    Column("persons", Integer, nullable=False),
    # `pending`, `approved`, `used`, `denied` or `expired`.
    Column("state", Text, nullable=False),
    # What was decided by whom, in a JSON list.
    Column("decisions", Text, nullable=False),
    # What was approved: `once`, `session` or `tools`, and of these the names with wildcards.
    Column("scope", Text, nullable=False),
    Column("tools", Text, nullable=False),
    Index("ix_approvals_key", "key", "state"),
    Index("ix_approvals_state", "state", "expires"),
    # What identifies the call, as long as the request is pending: so the same call is asked about once.
    Column("pending", LargeBinary, unique=True),
)
"""The tool calls about which a person is asked, and what was decided."""
