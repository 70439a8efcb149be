"""`hookgate policy ...`: pushes the policy to the database, shows its revisions, and goes back to one."""

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hookgate.hooks.settings.files import read_settings
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.changes import operator_name, recording_changes
from hookgate.proxy.cli.arguments.policy import REVISION
from hookgate.proxy.cli.terminal import print_table
from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.policy import describe_hooks, hook_warnings
from hookgate.proxy.policy.pushed import check_policy
from hookgate.proxy.policy.table import PolicyRevision, PolicyTable
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.database import POLICY_FILE, open_policies

_LONGEST_MESSAGE = 500
_NUMBER = re.compile(r"[0-9]{1,10}")
_HASH = re.compile(r"[0-9a-f]{12,64}")
_SHORT_HASH = 12


async def run_policy(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    config = read_config(vars(args)).config
    state = find_sources(config.hooks).state
    match args.policy_command:
        case "push":
            _push(config, state, args)
        case "rollback":
            _rollback(config, state, args)
        case command:
            with _opened(config, state) as table:
                {"show": _show, "diff": _diff, "history": _history}[command](table, args)
    return 0


@contextmanager
def _opened(config: Config, state: Path, *, is_new: bool = False) -> Iterator[PolicyTable]:
    url = Store(config.store, state).url()
    if not is_new and url is None and not (state / POLICY_FILE).exists():
        raise StoreError(f"no policy was pushed in {state}; name the gateway's folder with --state")
    table = PolicyTable(open_policies(url, state))
    try:
        yield table
    finally:
        table.close()


# ---- push, rollback


def _push(config: Config, state: Path, args: argparse.Namespace) -> None:
    document = _read(args.file)
    hooks = _check(args.file, document, config, state, args)
    with _opened(config, state, is_new=True) as table:
        newest = _expected_newest(table, args.expect)
        if newest is not None and newest.document == document:
            _tell(newest, "is the newest one, and has the same document: nothing was pushed", args.json)
            return
        _add(table, _next(newest, document, args), config, state, args)
    print(f"hookgate: {hooks}", file=sys.stderr)


def _rollback(config: Config, state: Path, args: argparse.Namespace) -> None:
    with _opened(config, state) as table:
        newest, former = _expected_newest(table, args.expect), _found(table, args.revision)
        if newest is None or newest.document == former.document:
            _tell(former, "has the document of the newest one: nothing was pushed", args.json)
            return
        name = Path(f"<policy revision {former.number}>")
        hooks = _check(name, former.document, config, state, args)
        revision = replace(_next(newest, former.document, args), restores=former.number)
        _add(table, revision, config, state, args)
    print(f"hookgate: {hooks}", file=sys.stderr)


def _read(path: Path) -> str:
    try:
        text = read_settings(path, strict=True).text
    except FileNotFoundError:
        raise ValueError(f"{path}: cannot be read: No such file or directory; check the path") from None
    if "\0" in text:  # in a comment; PostgreSQL could not store it
        raise ValueError(f"{path}: contains a null character; remove it")
    return text


def _check(path: Path, document: str, config: Config, state: Path, args: argparse.Namespace) -> str:
    """Return a description of the hooks. Raises SettingsError if a gateway could not use the document."""
    prices = read_prices(config.prices.file)
    configuration, warnings = check_policy(
        path, document, state, prices, scripts_elsewhere=args.scripts_elsewhere
    )
    for warning in (*warnings, *hook_warnings(configuration)):
        print(f"hookgate: {warning}", file=sys.stderr)
    return describe_hooks(configuration).partition(";")[0]


def _expected_newest(table: PolicyTable, expected: str | None) -> PolicyRevision | None:
    """Return the newest revision, if there is one. Raises ValueError if it is not the expected one."""
    name = table.newest()
    newest = table.find(name.number) if name else None
    if expected is None:
        return newest
    if not _NUMBER.fullmatch(expected) and not _HASH.fullmatch(expected):
        raise ValueError(f"--expect: {expected!r} is not a revision; use {REVISION}, or 0 for none")
    is_number = _NUMBER.fullmatch(expected) is not None
    is_newest = _is_named(newest, expected) if newest else is_number and int(expected) == 0
    if not is_newest:
        there = f"revision {newest.number} is" if newest else "there is no revision, so none is"
        raise ValueError(f"--expect: {there} the newest one, not {expected}; check `hookgate policy history`")
    return newest


def _next(newest: PolicyRevision | None, document: str, args: argparse.Namespace) -> PolicyRevision:
    if not args.message.isprintable() or len(args.message) > _LONGEST_MESSAGE:
        raise ValueError(f"--message: must be at most {_LONGEST_MESSAGE} printable characters")
    return PolicyRevision.after(newest, document, operator_name(args.by), args.message)


def _add(
    table: PolicyTable, revision: PolicyRevision, config: Config, state: Path, args: argparse.Namespace
) -> None:
    url, by = Store(config.store, state).url(), revision.pushed_by
    with recording_changes(config.audit, url, state, by) as record:
        table.add(revision)
        record(f"policy.{args.policy_command}", **revision.facts())
    _tell(revision, "was pushed; gateways use it within 5 seconds", args.json)
    if not config.hooks.database:
        print("hookgate: gateways use it once they have hooks.database = true", file=sys.stderr)


def _tell(revision: PolicyRevision, what: str, as_json: bool) -> None:
    short = revision.sha256.hex()[:_SHORT_HASH]
    print(
        json.dumps(_revision_fields(revision), ensure_ascii=False)
        if as_json
        else f"Revision {revision.number} ({short}) {what}."
    )


# ---- show, diff, history


def _found(table: PolicyTable, text: str) -> PolicyRevision:
    """Return the newest revision with this number or hash. Raises ValueError if there is none."""
    if _NUMBER.fullmatch(text):
        found = table.find(int(text))
    elif _HASH.fullmatch(text):
        found = next((each for each in table.all() if _is_named(each, text)), None)
    else:
        raise ValueError(f"{text!r} is not a revision; use {REVISION}")
    if found is None:
        raise ValueError(f"there is no revision {text}; `hookgate policy history` lists them")
    return found


def _is_named(revision: PolicyRevision, text: str) -> bool:
    if _NUMBER.fullmatch(text):
        return revision.number == int(text)
    return revision.sha256.hex().startswith(text)


def _newest(table: PolicyTable) -> PolicyRevision:
    name = table.newest()
    if name is None:
        raise ValueError("no policy was pushed yet; push one with: hookgate policy push FILE")
    return _found(table, str(name.number))


def _show(table: PolicyTable, args: argparse.Namespace) -> None:
    revision = _found(table, args.revision) if args.revision else _newest(table)
    if args.json:
        print(json.dumps({**_revision_fields(revision), "document": revision.document}, ensure_ascii=False))
    elif sys.stdout.isatty():
        print(revision.document)
    else:  # exactly as it was pushed
        sys.stdout.flush()
        sys.stdout.buffer.write(revision.document.encode())
        sys.stdout.buffer.flush()


def _revision_fields(revision: PolicyRevision) -> dict[str, Any]:
    when = utc_text(revision.pushed, "seconds")
    return {**revision.facts(), "pushed": when, "pushed_by": revision.pushed_by}


def _diff(table: PolicyTable, args: argparse.Namespace) -> None:
    newest, first = _newest(table), args.first
    if first is None:
        old = table.find(newest.parent) if newest.parent else None
        texts = (_named(old) if old else ("no revision", "")), _named(newest)
    elif _NUMBER.fullmatch(first) or _HASH.fullmatch(first):
        second = _found(table, args.second) if args.second else newest
        texts = _named(_found(table, first)), _named(second)
    else:
        base = _found(table, args.second) if args.second else newest
        texts = _named(base), (first, _read(Path(first)))
    (old_name, old_text), (new_name, new_text) = texts
    lines = difflib.unified_diff(
        old_text.splitlines(), new_text.splitlines(), old_name, new_name, lineterm=""
    )
    print(*lines, sep="\n", end="\n" if old_text.splitlines() != new_text.splitlines() else "")


def _named(revision: PolicyRevision) -> tuple[str, str]:
    return f"revision {revision.number}", revision.document


def _history(table: PolicyTable, args: argparse.Namespace) -> None:
    revisions = table.all()
    if args.json:
        for revision in revisions:
            print(json.dumps(_revision_fields(revision), ensure_ascii=False))
        return
    print_table(
        ("revision", "sha256", "pushed", "by", "restores", "message"),
        [
            (
                *(str(each.number), each.sha256.hex()[:_SHORT_HASH], utc_text(each.pushed, "seconds")),
                *(each.pushed_by, str(each.restores or "-"), each.message or "-"),
            )
            for each in revisions
        ],
    )
