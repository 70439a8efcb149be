"""The commands of the page of answers answer something, the API answers the same, and words are described."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from urllib.parse import quote

import pytest
from generators.queries_reference import queries_reference
from support.gateway.answers import COMMANDS, PAGE, arguments_of, record_answers
from support.gateway.panel import BEARER, panel_gateway
from support.places import DOCS
from support.wire import ask

from hookgate.proxy.audit.index.query import WORDS
from hookgate.proxy.cli.main import run_command


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers") / "state"
    record_answers(folder)
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


def address_of(command: str) -> str:
    """The path of the API that answers as a command does, by the page's rule."""
    kind, query, flags = arguments_of(command)
    if kind == "changes":
        return f"/api/changes?since={flags['since']}"
    limit = f"&limit={flags['limit']}" if "limit" in flags else ""
    if kind == "report":
        return f"/api/report?by={flags['group_by']}&q={quote(query)}{limit}"
    return f"/api/calls?q={quote(query)}{limit}{'&format=csv' if 'csv' in flags else ''}"


async def test_the_api_answers_each_question_as_the_command_does(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with panel_gateway(state.parent, audit={}) as gateway:
        for command in COMMANDS:
            words = [*shlex.split(command)[1:], "--state", str(state)]
            as_csv = "--csv" in words
            exit_code = await asyncio.to_thread(run_command, words if as_csv else [*words, "--json"])
            assert exit_code == 0, command
            printed = capsys.readouterr().out
            answer = await ask(gateway.admin, "GET", address_of(command), BEARER)
            assert answer.status == 200, answer.body
            if as_csv:
                assert answer.body.decode() == printed
                continue
            lines = [json.loads(line) for line in printed.splitlines()]
            if "report" in words:
                assert answer.json["rows"] == lines[0]["rows"], command
                assert answer.json["total"] == lines[0]["total"], command
            else:
                found = answer.json.get("calls") or answer.json.get("changes") or []
                assert [each["id"] for each in found] == [line["id"] for line in lines], command


def test_all_words_are_described() -> None:
    assert len(COMMANDS) > 20
    rows = PAGE.partition("## Queries")[2].partition("## Fields")[0]
    named = {
        word
        for cell in re.findall(r"^\| (`[^|]*) \|", rows, re.MULTILINE)
        for word in re.findall(r"`(\w+)`", cell)
    }
    assert named == {*WORDS}


def test_the_page_of_words_is_that_of_the_program() -> None:
    page = (DOCS / "queries.md").read_text()
    assert page == queries_reference(), (
        "run: PYTHONPATH=docs python -m generators.queries_reference > docs/queries.md"
    )
