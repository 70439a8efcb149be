"""`hookgate exports ...`: lists the exports of the audit and how far they have come, and tries one."""

import argparse
import json
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.recovery import save_journals
from hookgate.proxy.cli.flags import not_configured
from hookgate.proxy.cli.terminal import print_table
from hookgate.proxy.config import Config, ExportSettings, read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.errors import pluralize
from hookgate.proxy.exports.documents import encoder_of, probe_document
from hookgate.proxy.exports.receivers import Accepted, read_access
from hookgate.proxy.exports.records import WriterRecords
from hookgate.proxy.exports.states import ExportState, ExportStates, RefusedRecord
from hookgate.proxy.exports.threads import open_receiver
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.database import AUDIT_FILE, FAILURES, Database, open_audit, open_exports, reason
from hookgate.translator.fields import JsonObject

_RESTART = "restart the gateway: it reads its exports when it starts"


async def run_exports(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    effective = read_config(vars(args))
    config = effective.config
    if not config.exports:
        raise ValueError(not_configured("exports", "[exports.NAME]", effective.file))
    if args.exports_command == "test":
        return await _test(config, args.name)
    found = _exports(config)
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print(found)
    return 0


async def _test(config: Config, name: str) -> int:
    if name not in config.exports:
        raise ValueError(f"there is no export {name!r}; configured are {', '.join(config.exports)}")
    settings = config.exports[name]
    receiver = open_receiver(read_access({name: settings})[name])
    began = time.monotonic()
    try:
        document = probe_document(name, socket.gethostname(), encoder_of(settings))
        answer: Any = await receiver.deliver([document])
    except (OSError, TimeoutError) as error:
        raise ValueError(
            f"exports.{name}: {settings.to}: cannot be reached: {error or 'no answer in time'}"
        ) from None
    finally:
        await receiver.close()
    if not isinstance(answer, Accepted):
        raise ValueError(f"exports.{name}: {settings.to}: {answer.reason}")
    if answer.refused:
        raise ValueError(
            f"exports.{name}: {settings.to}: the receiver refuses the record: {answer.refused[0]}"
        )
    took = (time.monotonic() - began) * 1000
    print(f"ok: {settings.to} has accepted a record in {took:.0f} ms: {document.encoded.decode()}")
    print(f"After a change of hookgate.toml, {_RESTART}.")
    return 0


def _exports(config: Config) -> list[JsonObject]:
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    if url is None and not (state / AUDIT_FILE).exists():
        where = f"no gateway has written records in {state}"
        print(f"hookgate: {where}; name the gateway's folder with --state if there is one", file=sys.stderr)
        return [_export(name, settings, None, 0, None, []) for name, settings in config.exports.items()]
    with _opened(url, state) as (states, records):
        return [_found(name, settings, states, records) for name, settings in config.exports.items()]


@contextmanager
def _opened(url: str | None, state: Path) -> Iterator[tuple[ExportStates, Database]]:
    records = open_audit(url, state, writes=False)
    try:
        save_journals(records, state)
        states = ExportStates(open_exports(url, state))
        try:
            yield states, records
        finally:
            states.close()
    except FAILURES as error:
        raise StoreError(f"the exports cannot be read: {reason(error)}") from None
    finally:
        records.close()


def _found(name: str, settings: ExportSettings, states: ExportStates, records: Database) -> JsonObject:
    state = states.state(name)
    count, oldest = _lag(state, records) if state else (0, None)
    return _export(name, settings, state, count, oldest, states.refusals(name))


def _export(  # noqa: PLR0913, PLR0917  # what is shown of it
    name: str,
    settings: ExportSettings,
    state: ExportState | None,
    count: int,
    oldest: int | None,
    refused: Sequence[RefusedRecord],
) -> JsonObject:
    return {
        "name": name,
        "to": settings.to,
        "format": settings.format,
        "state": "new" if state is None else "sending" if state.is_held else "idle",
        "lag_records": count,
        "lag_seconds": 0.0 if oldest is None else round(max(0.0, time.time() - oldest / 1000), 1),
        "positions": {str(number): seq for number, seq in state.positions} if state else {},
        "error": state.error or None if state else None,
        "error_at": utc_text(state.error_at / 1000) if state and state.error else None,
        "missed": state.missed if state else 0,
        "refused": [
            {
                "id": each.id,
                "writer": each.writer,
                "seq": each.seq,
                "at": utc_text(each.at / 1000),
                "reason": each.reason,
            }
            for each in refused
        ],
    }


def _lag(state: ExportState, records: Database) -> tuple[int, int | None]:
    with records.engine.begin() as connection:
        positions = list(state.unfinished(connection))
    return WriterRecords(records).lag(positions)


_SHOWN = 10
"""Refused records of an export that are printed for people."""


def _print(found: list[JsonObject]) -> None:
    columns = ["name", "to", "state", "not sent", "oldest", "refused", "missed"]
    print_table(
        columns,
        [
            [
                each["name"],
                each["to"],
                each["state"],
                str(each["lag_records"]),
                f"{each['lag_seconds']:.0f} s" if each["lag_records"] else "-",
                str(len(each["refused"])),
                str(each["missed"]),
            ]
            for each in found
        ],
    )
    for each in found:
        if each["state"] == "new":
            print(f"{each['name']}: is not sent yet; {_RESTART}")
        if each["error"]:
            print(f"{each['name']}: since {each['error_at']}: {each['error']}")
        for refused in each["refused"][-_SHOWN:]:
            print(f"{each['name']}: refused at {refused['at']}: {refused['id']}: {refused['reason']}")
        if (more := len(each["refused"]) - _SHOWN) > 0:
            print(f"{each['name']}: {pluralize(more, 'refused record')} before these; --json shows all")
