"""Changes that a command makes, such as a push of the policy, as records in a chain of the command's own."""

import contextlib
import getpass
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.proxy.audit.chain import audit_entry
from hookgate.proxy.config.models import AuditSettings
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, reason

if TYPE_CHECKING:
    from hookgate.proxy.audit.ledger import Ledger

_LONGEST_NAME = 100

RecordOwnChange = Callable[..., None]
"""Records a change that was made: its name, such as `policy.push`, and what it is about by keyword."""


def operator_name(given: str | None) -> str:
    """Return the name of who makes a change: the given one, or the system's user and host.

    Raises ValueError if the name is not printable or is too long.
    """
    if given is None:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user without an entry
            user = "unknown"
        return f"{user}@{socket.gethostname()}"[:_LONGEST_NAME]
    if not given.strip() or not given.isprintable() or len(given) > _LONGEST_NAME:
        raise ValueError(f"--by: must be 1 to {_LONGEST_NAME} printable characters")
    return given


@contextmanager
def recording_changes(
    settings: AuditSettings, url: str | None, state: Path, by: str
) -> Iterator[RecordOwnChange]:
    """Open a chain for the changes of one command, and close it after the block.

    The chain is registered before the block begins, so that nothing is changed if the audit cannot be
    written. Without an audit nothing is recorded. Raises StoreError.
    """
    if not settings.enabled:
        yield lambda name, **about: None
        return
    with own_chain(settings, url, state) as ledger:
        yield lambda name, **about: record_own_change(ledger, name, by, **about)


@contextmanager
def own_chain(settings: AuditSettings, url: str | None, state: Path) -> Iterator["Ledger"]:
    """Open a chain for one command, and close it after the block. Raises StoreError."""
    jsonl = None if settings.jsonl is None else str(settings.jsonl)
    if jsonl == "-":  # the stdout of the gateway, not that of a command
        jsonl = None
    # Imported only for a change: most commands only read.
    from hookgate.proxy.audit.ledger import open_ledger  # noqa: PLC0415  # see above

    with open_ledger(url, state, jsonl, settings.deadline) as (ledger, _):
        try:
            yield ledger
        finally:
            with contextlib.suppress(*FAILURES):  # a gateway closes the chain later
                ledger.close()


def record_own_change(ledger: "Ledger", name: str, by: str, **about: object) -> None:
    """Record a change that a command has made. Raises StoreError if that fails."""
    try:
        ledger.write([audit_entry("change", change=name, by=by, **about)])
    except FAILURES as error:
        problem = f"the audit cannot be written: {reason(error)}"
        raise StoreError(f"{name} was done, but could not be recorded: {problem}") from None
