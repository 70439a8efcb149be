"""`hooks list` and `hooks show`."""

import json
from collections.abc import Sequence
from typing import Any

from hookgate.hooks.health import key_of
from hookgate.hooks.scripts import scripts_of
from hookgate.hooks.settings import EVENTS, Hook
from hookgate.proxy.managing.loading import Hooks, read_hooks
from hookgate.proxy.policy import read_status
from hookgate.proxy.sources import Sources

_COLUMNS = ("event", "name", "source", "kind", "state", "fails open", "last run", "last output")


def list_hooks(sources: Sources, as_json: bool) -> int:
    """Print every hook, in the order of the events and of precedence."""
    hooks = read_hooks(sources)
    rows = _rows(hooks, sources)
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        print(_table([_COLUMNS, *(tuple(str(row[column]) for column in _COLUMNS) for row in rows)]))
    else:
        places = "\n  ".join(str(place.path) for place in sources.places())
        print(f"No hooks are configured. These files were looked for:\n  {places}")
    return 0


def show_hook(sources: Sources, name: str) -> int:
    """Print all that is known of a hook."""
    hooks = read_hooks(sources)
    found = set(hooks.named(name))
    for row in (row for row in _rows(hooks, sources, found)):
        print(_table([(f"{key}:", str(value)) for key, value in row.items()]), end="\n\n")
    return 0


def _rows(hooks: Hooks, sources: Sources, only: set[Hook] | None = None) -> list[dict[str, Any]]:
    status = read_status(sources.state)
    listed = sorted(hooks.all(), key=lambda hook: EVENTS.index(hook.event))
    return [
        _row(hook, hooks.state_of(hook), status.get(key_of(hook), {}), full=only is not None)
        for hook in listed
        if only is None or hook in only
    ]


def _row(hook: Hook, state: str, status: dict[str, Any], full: bool) -> dict[str, Any]:
    last = f"failed: {status['error']}" if status.get("error") else "well" if status else "never"
    kind = hook.config.type + (" (persistent)" if getattr(hook.config, "persistent", False) else "")
    row = {
        "event": hook.event,
        "name": hook.name,
        "source": hook.layer,
        "kind": kind,
        "state": state,
        "fails open": hook.fails_open,
        "last run": last,
        "last output": status.get("said", ""),
    }
    if full:
        row |= {
            "runs": hook.runs,
            "in": hook.root,
            "file": hook.source,
            "scripts": ", ".join(map(str, scripts_of(hook))) or "none",
            "timeout": f"{hook.config.timeout:g} ms",
            "on_error": hook.on_error,
            "on exit codes": hook.on_exit_code,
            "description": hook.config.description or "",
            "counts": f"{status.get('runs', 0)} runs, {status.get('failures', 0)} failed, "
            f"{status.get('denials', 0)} denied",
        }
    return row


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in padded)
