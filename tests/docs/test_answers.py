"""The commands of the page of answers answer something, and its words are those of the program."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gateway.audits import entries_of, ledger_in, opened, record_of
from support.places import DOCS

from hookgate.hooks import SessionContext
from hookgate.proxy.audit.chain import audit_entry
from hookgate.proxy.audit.index.query import WORDS
from hookgate.proxy.audit.index.reporting import GROUPS
from hookgate.proxy.cli.main import run_command
from hookgate.proxy.observe.record import BlockedOutput, HookTally

PAGE = (DOCS / "answers.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"\| `(hookgate audit .*?)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The audit of a gateway whose calls answer most questions."""
    folder = tmp_path_factory.mktemp("state")
    session = SessionContext("1f2e" * 8, client="gemini-cli", key="alice", team="web")
    denied = record_of(1, session=session, outcome="denied", reasons={"BeforeModel": "no secrets here"})
    tally = HookTally("BeforeModel", "redact", "builtin:redact", "enforce", 1, 9, 0.001)
    tally.decisions, tally.findings = {"deny": 1}, {"EMAIL": 2}
    denied.hooks = {("BeforeModel", "redact"): tally}  # type: ignore[dict-item]  # a name is as good as a hook
    blocked = record_of(2, session=session, outcome="blocked")
    blocked.note_blocked(BlockedOutput("BeforeTool", ("tools",), "not listed", "run_shell_command"))
    long = record_of(3, session=session)
    long.seconds, long.usage = 60, type(long.usage)(120_000, 7, 0)
    failed = HookTally("AfterModel", "tone", "command", "enforce", 1, 100, 0.001)
    failed.decisions, failed.failures = {"allow": 1}, 1
    long.hooks = {("AfterModel", "tone"): failed}  # type: ignore[dict-item]  # see above
    with opened(folder) as database, ledger_in(database, folder) as ledger:
        ledger.write(
            [*entries_of(denied, blocked, long), audit_entry("change", change="keys.revoke", by="ada")]
        )
        ledger.close()
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_answers_its_question(
    command: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*shlex.split(command)[1:], "--state", str(state)]) == 0
    printed = capsys.readouterr()
    # Nobody has called last night; everything else has an answer.
    answered = len(printed.out.splitlines()) > (
        2 if " report " in command else 0 if "changes" in command else 1
    )
    assert answered or "during:" in command, printed.out


def test_all_words_and_groups_are_described() -> None:
    assert len(COMMANDS) == 21
    rows = PAGE.partition("## Queries")[2].partition("## Fields")[0]
    named = {
        word
        for cell in re.findall(r"^\| (`[^|]*) \|", rows, re.MULTILINE)
        for word in re.findall(r"`(\w+)`", cell)
    }
    assert named == {*WORDS}
    groups = PAGE.partition("`--by` names")[2].partition("The largest")[0]
    assert {*re.findall(r"`(\w+)`", groups)} == {*GROUPS}
