"""`hookgate approvals ...`: lists the tool calls that wait for a person, shows them, and decides."""

import argparse
import contextlib
import json
import re
import time
from functools import partial

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.approvals.requests import (
    LONGEST_GRANT,
    LONGEST_REASON,
    ONCE,
    ApprovalDecision,
    ApprovalRequest,
    DecisionError,
    Scope,
    check_person,
    decision_change,
    one_line,
    request_document,
    shown_arguments,
    shown_name,
)
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.audit.changes import operator_name, recording_changes
from hookgate.proxy.cli.terminal import confirm, print_table
from hookgate.proxy.config import Config, read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.config.values import WINDOW_SECONDS
from hookgate.proxy.store import Store
from hookgate.proxy.store.database import open_approvals

_LISTED = 200


async def run_approvals(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    config = read_config(vars(args)).config
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    with contextlib.closing(ApprovalTable(open_approvals(url, state))) as table:
        if args.approvals_command == "list":
            return _list(table, args)
        request = table.find(args.id)
        if request is None:
            raise ValueError(
                f"there is no request {args.id!r}, or several begin so; see: hookgate approvals list"
            )
        if args.approvals_command == "show":
            _print(request, as_json=args.json)
            return 0
        decision = ApprovalDecision(
            args.approvals_command == "approve",
            operator_name(args.by),
            "command",
            _now(),
            _reason(args.reason),
            _scope(args) if args.approvals_command == "approve" else ONCE,
        )
        if decision.approves and not args.yes:
            _print(request, as_json=False)
            if not confirm(f"Approve this call ({decision.scope})?", yes=False):
                return 1
        with recording_changes(config.audit, url, state, decision.by) as record:
            new = _decide(config, table, request, decision)
            name, about = decision_change(request, decision)
            record(name, **about)
        _report(new, as_json=args.json)
    return 0


def _now() -> int:
    return time.time_ns() // 1_000_000


def _decide(
    config: Config, table: ApprovalTable, request: ApprovalRequest, decision: ApprovalDecision
) -> ApprovalRequest:
    own_calls = config.approvals.own_calls
    try:
        return table.decide(request.id, decision, partial(check_person, own_calls, decision))
    except DecisionError as error:
        raise ValueError(str(error)) from None


def _list(table: ApprovalTable, args: argparse.Namespace) -> int:
    now = _now()
    found = table.latest(_LISTED, () if args.all else ("pending",))
    shown = [each for each in found if args.all or each.state_at(now) == "pending"]
    if args.json:
        for each in shown:
            print(json.dumps(request_document(each, now)))
        return 0
    if not shown:
        print("No call waits for a decision.")
        return 0
    rows = [
        (
            each.short_id,
            each.state_at(now),
            each.tool,
            each.key or "-",
            each.team or "-",
            shown_name(each.session)[:20],
            utc_text(each.created / 1000, "seconds"),
            utc_text(each.expires / 1000, "seconds"),
            ", ".join(decision.by for decision in each.approvals) or "-",
        )
        for each in shown
    ]
    print_table(("id", "state", "tool", "key", "team", "session", "asked", "expires", "approved by"), rows)
    return 0


def _print(request: ApprovalRequest, *, as_json: bool) -> None:
    document = request_document(request, _now())
    if as_json:
        print(json.dumps(document))
        return
    for name, value in document.items():
        if name == "arguments" or value in (None, "", []):
            continue
        shown = value if isinstance(value, str) else json.dumps(value)
        print(f"{name + ':':<13} {one_line(shown)}")
    print(f"arguments:\n{shown_arguments(request)}")


def _report(request: ApprovalRequest, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(request_document(request, _now())))
    elif request.state == "pending":
        print(
            f"{request.short_id} is approved by {request.deciders[-1]}; another person must approve it, too."
        )
    elif request.state == "denied":
        print(f"{request.short_id} is denied: the tool {request.tool} for {request.key or 'no key'}.")
    else:
        until = utc_text(request.expires / 1000, "seconds")
        what = (
            f"tools {request.tools}"
            if request.scope == "tools"
            else f"the tool {request.tool}, {request.scope}"
        )
        print(f"{request.short_id} is approved: {what}, for {request.key or 'no key'}, until {until}.")


def _reason(text: str) -> str:
    if not text.isprintable() or len(text) > LONGEST_REASON:
        raise ValueError(f"--reason: must be at most {LONGEST_REASON} shown_name characters")
    return text


def _scope(args: argparse.Namespace) -> Scope:
    if args.tool is None and args.duration is None:
        return Scope(args.scope or "once")
    if args.scope is not None or args.tool is None or args.duration is None:
        raise ValueError("--tool and --for belong together, and replace --scope")
    found = re.fullmatch(r"([1-9]\d{0,4})([mhd])", args.duration)
    seconds = int(found[1]) * WINDOW_SECONDS[found[2]] if found else 0
    if not 0 < seconds <= LONGEST_GRANT:
        raise ValueError(f"--for: {args.duration!r} must be a time of up to 30 days, such as 30m, 8h or 2d")
    if not args.tool.isprintable() or not 0 < len(args.tool) <= 100:
        raise ValueError("--tool: must be names of tools, with wildcards, such as 'send_*'")
    return Scope("tools", args.tool, seconds)
