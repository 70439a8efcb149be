"""The questions of the page of answers, and an audit whose calls answer most of them."""

import argparse
import re
import shlex
from pathlib import Path

from support.gateway.audits import entries_of, ledger_in, opened, record_of
from support.places import DOCS

from hookgate.hooks import SessionContext
from hookgate.proxy.audit.chain import audit_entry
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.record import BlockedOutput

PAGE = (DOCS / "answers.md").read_text(encoding="utf-8")
COMMANDS: list[str] = re.findall(r"\| `(hookgate audit .*?)` \|$", PAGE, re.MULTILINE)


def record_answers(folder: Path) -> None:
    """Record, in a state folder, the calls of a gateway that answer most questions."""
    session = SessionContext("1f2e" * 8, client="gemini-cli", key="alice", team="web")
    denied = record_of(1, session=session, outcome="denied", reasons={"BeforeModel": "no secrets here"})
    tally = HookTally("BeforeModel", "redact", "builtin:redact", "enforce", 1, 9, 0.001)
    tally.decisions, tally.findings = {"deny": 1}, {"EMAIL": 2}
    denied.hooks = {("BeforeModel", "redact"): tally}  # type: ignore[dict-item]  # a name is as good as a hook
    blocked = record_of(2, session=session, outcome="blocked")
    blocked.note_blocked(BlockedOutput("BeforeTool", ("tools",), "not listed", "run_shell_command"))
    long = record_of(3, session=session)
    long.seconds, long.usage = 60, type(long.usage)(120_000, 7, 0)
    failed = HookTally("AfterModel", "guard", "command", "enforce", 1, 100, 0.001)
    failed.decisions, failed.failures, failed.causes = {"allow": 1}, 1, {"timeout": 1}
    long.hooks = {("AfterModel", "guard"): failed}  # type: ignore[dict-item]  # see above
    with opened(folder) as database, ledger_in(database, folder) as ledger:
        ledger.write(
            [*entries_of(denied, blocked, long), audit_entry("change", change="keys.revoke", by="ada")]
        )
        ledger.close()


def arguments_of(command: str) -> tuple[str, str, dict[str, str]]:
    """The subcommand of a command, its query, and its flags."""
    _, _, kind, *rest = shlex.split(command)
    parsed = argparse.ArgumentParser()
    for flag in ("--group-by", "--limit", "--since"):
        parsed.add_argument(flag)
    for flag in ("--all", "--csv"):
        parsed.add_argument(flag, action="store_true")
    parsed.add_argument("query", nargs="*")
    given = parsed.parse_args(rest)
    return kind, " ".join(given.query), {name: value for name, value in vars(given).items() if value}
