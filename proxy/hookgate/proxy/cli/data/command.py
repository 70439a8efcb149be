"""`hookgate data find | export | erase`: what is stored about a person."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import sha256

from hookgate.proxy.audit.changes import operator_name, own_chain, record_own_change
from hookgate.proxy.audit.journal import FOLDER
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.cli.data.stored import DataSubject, ErasableContents, Kind, PersonalData
from hookgate.proxy.cli.terminal import confirm, print_table
from hookgate.proxy.config import read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.errors import pluralize
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.database import FAILURES, reason


async def run_data(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    config = read_config(vars(args)).config
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    transcripts = config.transcripts.folder or state / "transcripts"
    try:
        with PersonalData(url, state, transcripts, quiet=args.quiet) as data:
            if args.data_command == "erase" and not args.dry_run:
                data.save_journals()
            elif journals := data.journals():
                where = f"{pluralize(journals, 'journal')} in {state / FOLDER}"
                print(
                    f"hookgate: without the records in {where}, which a gateway moves to the database",
                    file=sys.stderr,
                )
            person = data.person(args.person)
            kinds = data.kinds(person)
            match args.data_command:
                case "find":
                    return _find(person, kinds, as_json=args.json)
                case "export":
                    return _export(kinds)
                case _:
                    chain = partial(own_chain, config.audit, url, state) if config.audit.enabled else None
                    return _erase(person, kinds, chain, args)
    except FAILURES as error:
        raise StoreError(f"what is stored about a person cannot be used: {reason(error)}") from None


def _find(person: DataSubject, kinds: Sequence[Kind], *, as_json: bool) -> int:
    stored = {kind.name: kind.count() for kind in kinds}
    _print_counts(person, kinds, {"stored": stored}, as_json=as_json)
    return _found(stored, person)


def _found(stored: Mapping[str, int], person: DataSubject) -> int:
    """Return the exit code for what was found: 1 for nothing."""
    if any(stored.values()):
        return 0
    print(f"hookgate: nothing is stored about {person.name}; names are matched exactly", file=sys.stderr)
    return 1


def _export(kinds: Sequence[Kind]) -> int:
    for kind in kinds:
        for document in kind.documents():
            print(json.dumps({"kind": kind.name, **document}, ensure_ascii=False))
    return 0


_OpenChain = Callable[[], AbstractContextManager[Ledger]]


def _erase(
    person: DataSubject, kinds: Sequence[Kind], open_chain: _OpenChain | None, args: argparse.Namespace
) -> int:
    by = operator_name(args.by)
    stored = {kind.name: kind.count() for kind in kinds}
    erasable = [kind for kind in kinds if kind.erasable and stored[kind.name]]
    if args.dry_run or not erasable:
        _print_counts(person, kinds, {"stored": stored}, as_json=args.json)
        return _found(stored, person)
    if stored.get(ErasableContents.name) and open_chain is None:
        raise ValueError("the removal of content must be recorded; set audit.enabled = true")
    if not args.json:
        _print_counts(person, kinds, {"stored": stored}, as_json=False)
        if person.key_ids:
            print(
                f"Gateways will refuse all calls with {', '.join(person.key_ids)}: keys are removed for good."
            )
    if not confirm(f"Erase this, except for the records, of {person.name}?", yes=args.yes):
        print("Nothing was erased.", file=sys.stderr)
        return 1
    with nullcontext() if open_chain is None else open_chain() as ledger:
        erased = _erased(person, erasable, ledger, by)
    if args.json:
        _print_counts(person, kinds, {"stored": stored, "erased": erased}, as_json=True)
    else:
        print(f"Erased: {', '.join(f'{count} {name}' for name, count in erased.items())}.")
    return 0


def _erased(person: DataSubject, kinds: Sequence[Kind], ledger: Ledger | None, by: str) -> dict[str, int]:
    """Erase these kinds, and record how much was erased, even if that fails in the middle.

    The record has a hash of the name in its place: it outlives the other records that contain the name.
    """
    erased: dict[str, int] = {}
    try:
        for kind in kinds:
            for count in kind.erase(ledger):
                erased[kind.name] = erased.get(kind.name, 0) + count
    finally:
        if ledger is not None and erased:
            digest = sha256(person.name.encode()).hexdigest()
            record_own_change(ledger, "data.erase", by, person_sha256=digest, erased=erased)
    return erased


def _print_counts(
    person: DataSubject, kinds: Sequence[Kind], counts: Mapping[str, Mapping[str, int]], *, as_json: bool
) -> None:
    if as_json:
        print(json.dumps({"person": person.name, "key_ids": person.key_ids, **counts}, ensure_ascii=False))
        return
    about = f" (keys {', '.join(person.key_ids)})" if person.key_ids else ""
    print(f"Stored about {person.name}{about}:")
    rows = [
        (
            kind.name,
            str(counts["stored"][kind.name]),
            "yes" if kind.erasable else "no: retention removes it",
        )
        for kind in kinds
    ]
    print_table(("kind", "count", "can be erased"), rows)
