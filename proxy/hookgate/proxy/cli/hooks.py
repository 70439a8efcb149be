"""`hookgate hooks ...`: lists, switches, trusts and migrates the configured hooks.

Only the commands that run hooks import what calls need, which takes longer than to list hooks.
"""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hookgate.hooks.claude_migration import Migration, migrate, read_claude
from hookgate.hooks.settings import EVENTS, Hook
from hookgate.hooks.settings.editing import rewrite, with_hooks, with_switch
from hookgate.hooks.settings.schema import settings_schema
from hookgate.hooks.trust import hook_fingerprint, scripts_of, untrustworthy
from hookgate.proxy.cli.terminal import confirm, print_table, table_lines
from hookgate.proxy.config import read_config
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.errors import pluralize
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.policy import (
    ConfiguredHooks,
    read_all_sources,
    read_configured_hooks,
    read_status,
    switch,
    switch_all,
)

_COLUMNS = (
    "event",
    "name",
    "source",
    "kind",
    "state",
    "fails open",
    "last run",
    "last output",
    "description",
)


def list_hooks(sources: Sources, as_json: bool) -> int:
    """Print every hook, by event and by precedence."""
    hooks = read_configured_hooks(sources)
    rows = _rows(hooks, sources)
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        columns = _COLUMNS if any(row["description"] for row in rows) else _COLUMNS[:-1]
        cells = (tuple(str(row[column]) for column in columns) for row in map(_printed, rows))
        print_table(columns, cells)
    else:
        places = "\n  ".join(str(place.path) for place in sources.places())
        print(f"No hooks are configured. These files were searched for:\n  {places}")
    return 0


def show_hook(sources: Sources, name: str, *, as_json: bool) -> int:
    """Print everything known about the hooks of a name."""
    hooks = read_configured_hooks(sources)
    rows = _rows(hooks, sources, set(hooks.named(name)))
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        lines = table_lines([(f"{key}:", _text(value)) for key, value in _printed(row).items()])
        print(*lines, sep="\n", end="\n\n")
    return 0


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _printed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for people: a hook in observe mode never fails open, but it also stops nothing."""
    return {**row, "fails open": "observes"} if row["state"] == "observe" else row


def _rows(hooks: ConfiguredHooks, sources: Sources, only: set[Hook] | None = None) -> list[dict[str, Any]]:
    listed = sorted(hooks.all(), key=lambda hook: EVENTS.index(hook.event))
    status = read_status(sources.state, listed)
    return [
        _row(hook, hooks.state_of(hook), status.get(hook, {}), full=only is not None)
        for hook in listed
        if only is None or hook in only
    ]


def _row(hook: Hook, state: str, status: dict[str, Any], full: bool) -> dict[str, Any]:
    error, warning = status.get("error", ""), status.get("warning", "")
    shown_error = error if full else error.partition("\n")[0]  # a table has one line for each hook
    succeeded = f"ok, but it {warning}" if warning else "ok"
    last = f"failed: {shown_error}" if error else succeeded if status else "never"
    kind = hook.config.type + (" (persistent)" if getattr(hook.config, "persistent", False) else "")
    row = {
        "event": hook.event,
        "name": hook.name,
        "source": hook.layer,
        "kind": kind,
        "state": state,
        "fails open": hook.fails_open,
        "last run": last,
        "last output": status.get("summary", ""),
        "description": hook.config.description or "",
    }
    if full:
        row |= {
            "runs": hook.display_target,
            "options": getattr(hook.config, "options", {}),
            "when": hook.config.when.model_dump(mode="json", exclude_none=True),
            "in": str(hook.root),
            "file": str(hook.source),
            "scripts": ", ".join(map(str, scripts_of(hook))) or "none",
            "timeout": f"{hook.config.timeout:g} ms",
            "on_error": hook.on_error,
            "on exit codes": hook.on_exit_code,
            "counts": f"{status.get('runs', 0)} runs, {status.get('failures', 0)} failed, "
            f"{status.get('denials', 0)} denied",
        }
    return row


def trust(sources: Sources, names: Sequence[str], yes: bool) -> int:
    """Show the hooks that are not trusted, and trust them if the user agrees. Returns 1 if not, else 0."""
    hooks = read_configured_hooks(sources)
    wanted = [hook for name in names for hook in hooks.named(name)] if names else hooks.all()
    new = [hook for hook in wanted if not hooks.trust.trusts(hook)]
    if not new:
        print("All hooks of the project are already trusted.")
        return 0
    shown = {hook: hook_fingerprint(hook) for hook in new}
    for hook in new:
        _describe(hook)
        if reason := untrustworthy(hook):
            print(f"The hook {hook.name!r} {reason}. Nothing was trusted.")
            return 1
    if not confirm(f"Let {'it' if len(new) == 1 else 'them'} run from now on?", yes=yes):
        print("Nothing was trusted; these hooks do not run.")
        return 1
    if changed := [hook.name for hook in new if hook_fingerprint(hook) != shown[hook]]:
        print(f"Nothing was trusted: {', '.join(changed)} changed meanwhile. Review it again.")
        return 1
    hooks.trust.trust(shown)
    print(
        f"Trusted: {', '.join(hook.name for hook in new)}. If one of them changes, it must be trusted again."
    )
    return 0


def _describe(hook: Hook) -> None:
    """Print everything that trust covers, with line ends and other control characters escaped."""
    env = getattr(hook.config, "env", {})
    for line in (
        f"{hook.event} hook {hook.name!r} of {hook.source}",
        f"  runs     {hook.display_target}",
        *(f"  with     {name}={value}" for name, value in env.items()),
        f"  scripts  {', '.join(map(str, scripts_of(hook))) or 'none'}",
    ):
        print(escape_controls(line, keep_lines=False))


def migrate_from_claude(sources: Sources, dry_run: bool) -> int:
    """Migrate the hooks of the project and the user to their own settings, and print a report.

    Returns 1 if there are no settings of Claude Code, else 0.
    """
    project, home = sources.project or Path.cwd(), Path.home()
    found = read_claude(project, home)
    if not found:
        print(f"No Claude Code settings found in {project / '.claude'} or {home / '.claude'}.")
        return 1
    taken: set[str] = set()
    for path, settings in found:
        migration = migrate(settings, taken)
        taken |= migration.names
        target = path.parent.parent / ".gemini" / "settings.json"
        changed = False if dry_run else rewrite(target, partial(_changed, migration=migration))
        _tell(path, target, migration, changed, dry_run)
    return 0


def _changed(text: str, migration: Migration) -> str:
    text = with_hooks(text, migration.hooks)
    return text if migration.on else with_switch(text, on=False)


def _tell(path: Path, target: Path, migration: Migration, changed: bool, dry_run: bool) -> None:
    names = ", ".join(sorted(migration.names)) or "no hooks"
    done = "would be written to" if dry_run else "written to" if changed else "were already in"
    print(f"{path}: {names} {done} {target}")
    for note in migration.notes:
        print(f"  {note}")
    if migration.left_out:
        left_out = pluralize(migration.left_out, "entry", "entries")
        print(f"  left out: {left_out}; what these checked is unchecked")


async def run_hooks(args: argparse.Namespace) -> int:  # noqa: PLR0911  # one line for each command reads best
    """Run one command and return its exit code. Raises ValueError (such as SettingsError) or OSError."""
    config = read_config(vars(args)).config
    sources = read_all_sources(config, default_project=Path.cwd())
    match args.hooks_command:
        case "list" | "panel":
            return list_hooks(sources, args.json)
        case "show":
            return show_hook(sources, args.name, as_json=args.json)
        case "enable" | "disable" as wish:
            return switch(sources, args.name, on=wish == "enable")
        case "enable-all" | "disable-all" as wish:
            return switch_all(sources, on=wish == "enable-all")
        case "trust":
            return trust(sources, args.name, args.yes)
        case "test":
            from hookgate.proxy.cli.trials import try_hooks  # noqa: PLC0415  # see the module's docstring

            return await try_hooks(
                sources, args.event, args.name, args.input, read_prices(config.prices.file)
            )
        case "migrate":
            return migrate_from_claude(sources, args.dry_run)
        case "schema":
            print(json.dumps(settings_schema(), indent=2))
            return 0
        case _:
            from hookgate.proxy.cli.trials import diagnose  # noqa: PLC0415  # see the module's docstring

            return await diagnose(sources, read_prices(config.prices.file))
