"""Persistent hooks: one line of input, one line of output, and the meaning of each."""

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.hooks.kinds import GREETING, KEPT_HERE, KEY, ask, documented, hook_of, running
from support.hooks.persistent import ECHO, PROLOGUE, Starting, alive, reason
from support.programs.processes import children, eventually

from hookgate.hooks import HookError
from hookgate.hooks.runners import Runner
from hookgate.hooks.settings import CommandConfig

pytestmark = pytest.mark.usefixtures("tidy")


# ---- one line in, one line out


needs_node = pytest.mark.skipif(not shutil.which("node"), reason="no node here")

NODE = """
const lines = require('readline').createInterface({input: process.stdin});
lines.on('line', line => console.log(JSON.stringify({decision: 'allow', reason: JSON.parse(line).n})));
"""
BASH = 'while read -r line; do [[ $line =~ [0-9]+ ]] && echo "{\\"reason\\": \\"${BASH_REMATCH[0]}\\"}"; done'


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-S", "-c", PROLOGUE + ECHO], id="python"),
        pytest.param(BASH, id="shell"),
        pytest.param(["node", "-e", NODE], id="node", marks=needs_node),
    ],
)
async def test_a_program_of_any_language_answers_line_by_line(command: Any, program: Starting) -> None:
    async with program(command=command) as runner:
        for n in ("1", "22", "333"):
            assert await reason(ask(runner, n=n)) == n


async def test_a_program_starts_with_the_first_event_and_serves_them_all(program: Starting) -> None:
    body = "for event in events(): answer(reason=str(os.getpid()))"
    before = children()
    async with program(body) as runner:
        assert children() == before
        pids = {await reason(ask(runner, session=f"s-{n}")) for n in range(5)}
        assert {str(pid) for pid in children() - before} == pids
        assert len(pids) == 1


async def test_two_hundred_calls_at_once_get_their_own_answers_from_four_processes(program: Starting) -> None:
    body = """
import select
while line := os.read(0, 65536):
    alone = line.count(b"\\n") == 1 and not select.select([0], [], [], 0.001)[0]
    answer(reason=str(json.loads(line)["n"]), systemMessage=f"{os.getpid()} {alone}")
"""
    async with program(body, workers=4) as runner:
        outputs = await asyncio.gather(*(ask(runner, n=n) for n in range(200)))
    assert [output["reason"] for output in outputs] == [str(n) for n in range(200)]
    served = {output["systemMessage"] for output in outputs}
    assert {each.split()[1] for each in served} == {"True"}, "a process was given a call during another"
    assert len(served) == 4


async def test_callers_are_served_in_the_order_they_came(program: Starting, tmp_path: Path) -> None:
    body = "wait_for('go')\nfor number, _ in enumerate(events()): answer(reason=str(number))"
    async with program(body, workers=1) as runner:
        calls = [asyncio.create_task(ask(runner)) for _ in range(20)]
        await eventually(lambda: bool(alive()))
        (tmp_path / "go").touch()
        assert [await reason(call) for call in calls] == [str(number) for number in range(20)]


async def test_input_and_answer_may_be_larger_than_any_pipe(program: Starting) -> None:
    async with program("for event in events(): answer(reason=event['text'][:1_000_000])") as runner:
        for _ in range(2):
            assert await reason(ask(runner, text="x" * 3_000_000)) == "x" * 1_000_000


async def test_an_answer_may_come_in_pieces(program: Starting) -> None:
    body = """
for event in events():
    for character in '{"reason": "é"}\\n'.encode():
        os.write(1, bytes([character])); time.sleep(0.001)
"""
    async with program(body) as runner:
        assert await ask(runner) == {"reason": "é"}


@pytest.mark.parametrize(
    ("line", "output"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("  ", None, id="blank"),
        pytest.param("{}", {}, id="empty object"),
        pytest.param('{"decision": "block"}', {"decision": "deny"}, id="alias"),
        pytest.param("be nice", {"decision": "allow", "systemMessage": "be nice"}, id="prose"),
    ],
)
async def test_a_line_means_what_it_means_on_a_command_s_stdout(
    line: str, output: Any, program: Starting
) -> None:
    async with program(f"for event in events(): print({line!r}, flush=True)") as runner:
        assert await ask(runner) == output
        assert await ask(runner) == output


async def test_tool_names_select_tools_as_a_command_s_do(program: Starting) -> None:
    async with program("for event in events(): print('read_file,ls', flush=True)") as runner:
        output = await ask(runner, "BeforeToolSelection")
    assert output["hookSpecificOutput"]["toolConfig"]["allowedFunctionNames"] == ["read_file", "ls"]


async def test_an_answer_of_the_wrong_type_fails_the_call_and_keeps_the_process(program: Starting) -> None:
    body = "for n, _ in enumerate(events()): answer(reason=str(os.getpid()) if n else 5)"
    async with program(body) as runner:
        with pytest.raises(HookError, match=r"^output\.reason: "):
            await ask(runner)
        assert {int(await reason(ask(runner)))} == alive()


# ---- environment


async def test_the_environment_is_a_command_s_but_for_the_session(
    program: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_SESSION_ID", "of the gateway's own parent")
    for name in ("GEMINI_API_KEY", "HOOKGATE_ADMIN__TOKEN", "OTEL_EXPORTER_OTLP_HEADERS", "ANY_OTHER"):
        monkeypatch.setenv(name, "canary")
    body = "for event in events(): answer(reason=json.dumps([dict(os.environ), os.getcwd()]))"
    async with program(body, env={"MINE": "yes"}) as runner:
        reported = await reason(ask(runner))
    assert "GEMINI_SESSION_ID" not in reported
    assert "canary" not in reported
    assert f'"GEMINI_PROJECT_DIR": "{tmp_path}"' in reported
    assert '"MINE": "yes"' in reported
    assert reported.endswith(f'"{tmp_path}"]')


# ---- what it is for


@pytest.mark.parametrize("name", ["guard.py", pytest.param("guard.mjs", marks=needs_node)])
async def test_the_documented_hooks_run_as_they_are_shown(
    name: str, program: Starting, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(documented(name))
    file.chmod(0o755)
    async with program(command=[f"./{name}"]) as runner:
        for _ in range(2):
            assert await ask(runner, llm_request=KEY) == KEPT_HERE
            assert await ask(runner, llm_request=GREETING) == {}


async def test_a_kept_process_is_at_least_fifteen_times_faster_than_a_new_one(
    program: Starting, tmp_path: Path
) -> None:
    spawned = CommandConfig(type="command", command=[sys.executable, "-c", "import json; print('{}')"])
    async with program(ECHO) as kept, running(hook_of(spawned, tmp_path)) as new:
        await ask(kept, n=0)
        assert await _fastest(kept, 50) * 15 < await _fastest(new, 5)


async def _fastest(runner: Runner, calls: int) -> float:
    """Seconds of the quickest of some calls: what the machine does beside matters least to it."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        await ask(runner, n=0)
        times.append(time.perf_counter() - begin)
    return min(times)
