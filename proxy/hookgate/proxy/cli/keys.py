"""`hookgate keys ...`: issues keys for clients, lists, rotates and revokes them, and shows their usage.

Also `hookgate keys hash`, for keys that the configuration names.
"""

import argparse
import json
import re
import shlex
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from getpass import getpass
from pathlib import Path
from typing import Any

from hookgate.hooks.policies.counters import MEASURES, LimitRule
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.changes import RecordOwnChange, operator_name, recording_changes
from hookgate.proxy.cli.terminal import print_table
from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.config.values import key_name
from hookgate.proxy.keys.callers import hash_single_key
from hookgate.proxy.keys.scopes import KeyScope
from hookgate.proxy.keys.secrets import (
    KEY_PREFIX,
    Pepper,
    check_pepper,
    create_key,
    id_in_key,
    load_pepper,
)
from hookgate.proxy.keys.table import KeyTable, KeyUsage, StoredKey
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.database import KEYS_FILE, open_keys

_SECONDS = {"m": 60, "h": 3600, "d": 24 * 3600}
_LIMIT = re.compile(r"(requests|tokens|cost)=([0-9]+(?:\.[0-9]+)?)/(minute|day|month)")
_LONGEST_NOTE = 100
_LONGEST_MODEL = 128
_LONGEST_DURATION = 6


async def run_keys(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    if args.keys_command == "hash":
        return _print_hash()
    config = read_config(vars(args)).config
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    is_new = args.keys_command == "create"
    description = _description(args) if is_new else {}
    if not is_new and url is None and not (state / KEYS_FILE).exists():
        raise StoreError(f"no keys were issued in {state}; name the gateway's folder with --state")
    table = KeyTable(open_keys(url, state))
    try:
        match args.keys_command:
            case "list":
                _list(table, args)
            case "usage":
                _usage(table, args)
            case _:
                with recording_changes(config.audit, url, state, operator_name(args.by)) as record:
                    _change(table, config, state, args, description, record)
    finally:
        table.close()
    return 0


def _change(  # noqa: PLR0913, PLR0917  # what a change needs
    table: KeyTable,
    config: Config,
    state: Path,
    args: argparse.Namespace,
    description: dict[str, Any],
    record: RecordOwnChange,
) -> None:
    """Issue, rotate or revoke a key, record that, and print the result."""
    match args.keys_command:
        case "create":
            _create(table, _pepper(table, config, state), description, args.json, record)
            _print_conditions(config, state, args)
        case "rotate":
            _rotate(table, _pepper(table, config, state), _key_text(args.key), args, record)
        case _:
            _revoke(table, _key_text(args.key), record)


def _pepper(table: KeyTable, config: Config, state: Path) -> Pepper:
    pepper = load_pepper(config.clients.pepper_file, state)
    check_pepper(pepper, table)
    return pepper


# ---- create


def _description(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a new key, except for its ID and hash. Raises ValueError for invalid ones."""
    now = int(time.time())
    expires = _moment(args.expires, "--expires", now) if args.expires else None
    if expires is not None and expires <= now:
        raise ValueError(f"--expires: {args.expires!r} is in the past")
    return {
        "owner": _name(args.owner, "OWNER"),
        "team": _name(args.team, "--team") if args.team else "",
        "note": _printable(args.note, "--note", _LONGEST_NOTE),
        "scope": _scope(args).model_dump_json(exclude_none=True),
        "created": now,
        "expires": expires,
    }


def _name(text: str, flag: str) -> str:
    try:
        return key_name(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None  # without the text, which may be a key


def _printable(text: str, flag: str, longest: int) -> str:
    if not text.isprintable() or len(text) > longest:
        raise ValueError(f"{flag}: must be at most {longest} printable characters")
    return text


def _model(text: str) -> str:
    if text.startswith("models/"):
        raise ValueError(f"--models: {text!r} has a prefix; write {text.removeprefix('models/')!r}")
    # Imported only for a key that is created: it imports the configuration of hooks.
    from hookgate.hooks.settings.matcher_advice import regex_as_wildcards  # noqa: PLC0415  # see above

    if (meant := regex_as_wildcards(text)) != [text]:
        remedy = f"; write {shlex.join(meant)}" if meant else ""
        expected = "names with the wildcards *, ? and […] are expected"
        raise ValueError(f"--models: {text!r} is a regular expression, but {expected}{remedy}")
    return _printable(text, "--models", _LONGEST_MODEL)


def _scope(args: argparse.Namespace) -> KeyScope:
    limits = []
    for text in args.limit:
        match = _LIMIT.fullmatch(text)
        if not match:
            raise ValueError(
                f"--limit: {text!r} is not a limit; write requests=60/minute, tokens=… or cost=…, "
                "for each minute, day or month"
            )
        amount = (
            float(match[2]) if match[1] == "cost" else int(match[2]) if match[2].isdecimal() else match[2]
        )
        limits.append({"per": "key", "window": match[3], match[1]: amount})
    models = [_model(text) for text in args.models]
    return read_options(KeyScope, {"routes": args.routes, "models": models, "limits": limits})


def _create(
    table: KeyTable, pepper: Pepper, description: dict[str, Any], as_json: bool, record: RecordOwnChange
) -> None:
    key, key_id = create_key()
    stored = StoredKey(id=key_id, hash=pepper.hash(key), pepper=pepper.fingerprint, **description)
    table.add(stored)
    record("keys.create", **_recorded(stored), scope=json.loads(stored.scope), expires=_time(stored.expires))
    _show_key(key, key_id, description["owner"], as_json)


def _recorded(stored: StoredKey) -> dict[str, Any]:
    """Return what the audit records about a key: nothing that is secret."""
    return {"key": stored.id, "owner": stored.owner, "team": stored.team or None}


def _show_key(key: str, key_id: str, owner: str, as_json: bool) -> None:
    """Print a key: on stdout only the key, so that it can be written to a file."""
    print(json.dumps({"id": key_id, "owner": owner, "key": key}) if as_json else key)
    print(f"hookgate: the key {key_id} of {owner}; keep it now, it cannot be shown again", file=sys.stderr)


def _print_conditions(config: Config, state: Path, args: argparse.Namespace) -> None:
    """Print which gateways accept a new key, and what they need for it."""
    is_file = config.store.url is None and config.store.url_file is None
    where = f"the state folder {state}" if is_file else "the same store"
    conditions = [f"gateways with {where} accept it"]
    if not config.clients.issued_keys:
        conditions[0] += " once they have clients.issued_keys = true"
    for condition in conditions:
        print(f"hookgate: {condition}", file=sys.stderr)


# ---- rotate, revoke


def _key_text(text: str) -> str:
    """Return the ID, key or owner that was given, or for `-` the one on stdin, which nobody else sees."""
    return _text_on_stdin("key: ") if text == "-" else text


def _rotate(
    table: KeyTable, pepper: Pepper, text: str, args: argparse.Namespace, record: RecordOwnChange
) -> None:
    now = int(time.time())
    stored, overlap = _found(table, text), _seconds(args.overlap, "--overlap")
    if _state(stored, now) != "valid":
        raise ValueError(f"the key {stored.id} is {_state(stored, now)}; issue a new one")
    key, _ = create_key(stored.id)
    if not table.rotate(stored, pepper.hash(key), pepper.fingerprint, now + overlap):
        raise ValueError(f"the key {stored.id} was changed by someone else; check `hookgate keys list`")
    record("keys.rotate", **_recorded(stored), overlap_seconds=overlap)
    _show_key(key, stored.id, stored.owner, args.json)


def _revoke(table: KeyTable, text: str, record: RecordOwnChange) -> None:
    stored = _found(table, text)
    if not table.revoke(stored.id, int(time.time())):
        raise ValueError(f"the key {stored.id} of {stored.owner} was revoked before")
    record("keys.revoke", **_recorded(stored))
    print(f"Revoked {stored.id} of {stored.owner}.")


def _found(table: KeyTable, text: str) -> StoredKey:
    """Return the key with an ID, or with the ID in a whole key, or the only valid key of an owner.

    Raises ValueError.
    """
    keys, now = table.all(), int(time.time())
    key_id = _id_in(text)
    for key in keys:
        if key.id == key_id:
            return key
    if key_id != text:
        raise ValueError(
            f"no key with the ID {key_id} was issued here; name the gateway's folder with --state"
        )
    own = [key for key in keys if key.owner == text and _state(key, now) == "valid"]
    if len(own) == 1:
        return own[0]
    if own:
        raise ValueError(f"{text} has several keys: {', '.join(key.id for key in own)}; name one by its ID")
    raise ValueError("there is no valid key of this ID or owner; `hookgate keys list` lists the keys")


def _id_in(text: str) -> str:
    """Return the ID in a whole key, or the text itself. Raises ValueError for a part of a key.

    Messages have the ID, but never the key, which may still be valid.
    """
    if not text.startswith(KEY_PREFIX):
        return text
    key_id = id_in_key(text)
    if key_id is None:
        raise ValueError(
            "this is not a whole key: characters are missing or wrong; copy all of it, or name its ID, which "
            f"follows {KEY_PREFIX}"
        )
    return key_id


# ---- list, usage


def _list(table: KeyTable, args: argparse.Namespace) -> None:
    now, usage = int(time.time()), table.usage()
    keys = [key for key in table.all() if args.all or _state(key, now) == "valid"]
    shown = [_key_fields(key, now, usage.get(key.id, KeyUsage())) for key in keys]
    if args.json:
        for each in shown:
            print(json.dumps(each, ensure_ascii=False))
        return
    print_table(
        ("id", "owner", "team", "state", "expires", "last used", "routes", "models", "limits", "note"),
        [
            (*map(_cell, each.values()),)
            for each in ({name: each[name] for name in _LISTED} for each in shown)
        ],
    )


_LISTED = ("id", "owner", "team", "state", "expires", "last_used", "routes", "models", "limits", "note")


def _key_fields(key: StoredKey, now: int, used: KeyUsage) -> dict[str, Any]:
    scope = KeyScope.model_validate_json(key.scope)
    until = key.previous_until if key.previous_until and key.previous_until > now else None
    return {
        "id": key.id,
        "owner": key.owner,
        "team": key.team or None,
        "state": _state(key, now),
        "created": _time(key.created),
        "expires": _time(key.expires),
        "revoked": _time(key.revoked),
        "old_key_until": _time(until),
        "last_used": _time(used.last_used or None),
        "routes": list(scope.routes),
        "models": list(scope.models),
        "limits": [_limit(rule) for rule in scope.limits],
        "note": key.note or None,
    }


def _limit(rule: LimitRule) -> str:
    measure = next(each for each in MEASURES if rule.most(each))
    return f"{measure}={str(rule.most(measure)).removesuffix('.0')}/{rule.window}"


def _usage(table: KeyTable, args: argparse.Namespace) -> None:
    """Print what was used with each key."""
    since = _moment(args.since, "--since", int(time.time()), past=True) if args.since else 0
    usage = table.usage(since)
    keys = [key for key in table.all() if args.key in (None, key.id, key.owner)]
    if args.key and not keys:
        raise ValueError("there is no key of this ID or owner; `hookgate keys list --all` lists the keys")
    rows = [(key, usage.get(key.id, KeyUsage())) for key in keys]
    if args.json:
        for key, used in rows:
            about = {"id": key.id, "owner": key.owner, "team": key.team or None}
            print(json.dumps({**about, **asdict(used), "last_used": _time(used.last_used or None)}))
        return
    print_table(
        ("id", "owner", "team", "calls", "input tokens", "output tokens", "cost", "last used"),
        [
            (
                *(key.id, key.owner, key.team or "-", str(used.calls)),
                *(str(used.input_tokens), str(used.output_tokens)),
                f"{used.cost:.4f}",
                _time(used.last_used or None) or "-",
            )
            for key, used in rows
        ],
    )


def _state(key: StoredKey, now: int) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= now else "valid"


def _time(at: int | None) -> str | None:
    return None if at is None else utc_text(at, "seconds")


def _cell(value: Any) -> str:
    return (", ".join(value) if isinstance(value, list) else str(value or "")) or "-"


# ---- times


def _seconds(text: str, flag: str) -> int:
    """Return the seconds of a duration such as `90d`. Raises ValueError."""
    if text == "0":
        return 0
    if text[:-1].isdecimal() and len(text) <= _LONGEST_DURATION and text[-1] in _SECONDS:
        return int(text[:-1]) * _SECONDS[text[-1]]
    raise ValueError(f"{flag}: {text!r} is not a duration; write 30m, 12h or 90d")


def _moment(text: str, flag: str, now: int, *, past: bool = False) -> int:
    """Return a time in seconds since 1970: a duration from now, or a date in UTC. Raises ValueError."""
    if text[-1:] in _SECONDS:
        seconds = _seconds(text, flag)
        return now - seconds if past else now + seconds
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{flag}: {text!r} is not a time; write 30m, 12h, 90d or 2027-01-31") from None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def _text_on_stdin(prompt: str) -> str:
    """Return the text on stdin. On a terminal it is asked for, and not shown."""
    text = getpass(prompt) if sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace")
    return text.strip()


def _print_hash() -> int:
    """Print the hash of the key on stdin. On a terminal the input is not shown."""
    try:
        print(hash_single_key(_text_on_stdin("API key: ")))
    except ValueError as error:
        raise ValueError(f"stdin {error}") from None
    return 0
