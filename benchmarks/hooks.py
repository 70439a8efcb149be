"""Ways to run a hook, side by side: a bare spawn, hookgate's kinds, and Gemini CLI's own runner.

hookgate runs them as its gateway does: it adopts what they leave behind, and a whole event is fired. Every
hook does the same work: it takes a BeforeTool input of about 1 KB and allows it.
"""

import asyncio
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from hookgate.hooks import BeforeTool, Engine, SessionContext, load_settings
from hookgate.hooks.events.base import Document
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runners.cleanup import adopting_orphans

ROUNDS = 15
GEMINI_CLI = Path(__file__).parents[1] / "tests/e2e/node/node_modules/@google/gemini-cli"

EVENT = BeforeTool("write_file", {"file_path": "notes.txt", "content": "word " * 180})
SESSION = SessionContext("benchmark")
SHELL = "cat > /dev/null; echo '{}'"
PYTHON = "import json, sys\njson.load(sys.stdin)\nprint('{}')\n"
KEPT = "import json, sys\nfor line in sys.stdin:\n    json.loads(line)\n    print('{}', flush=True)\n"
RULES = 'package hookgate\ndeny contains "no" if input.tool_name == "none"\n'
CALLABLE = "def look(call):\n    return {}\n"

Case = Callable[[int], Awaitable[float]]
"""Run so many times; the microseconds of one."""


def main() -> None:
    with adopting_orphans():
        asyncio.run(_main())


async def _main() -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, code in (
            ("hook.py", PYTHON),
            ("kept.py", KEPT),
            ("runtime.py", CALLABLE),
            ("hook.rego", RULES),
        ):
            (folder / name).write_text(code)
        script, kept = (f"{sys.executable} -S {folder / name}" for name in ("hook.py", "kept.py"))
        url = await stack.enter_async_context(_service())
        gemini = await stack.enter_async_context(_gemini_cli())
        ours = {
            name: await stack.enter_async_context(_ours(folder, name, hook))
            for name, hook in {
                "shell": {"type": "command", "command": SHELL},
                "python": {"type": "command", "command": script},
                "persistent": {"type": "command", "command": f"exec {kept}", "persistent": True},
                "http": {"type": "http", "url": url},
                "rego": {"type": "rego", "files": ["hook.rego"]},
                "runtime": {"type": "runtime", "action": "./runtime.py:look"},
            }.items()
        }
        await _report(
            "a command hook in the shell",
            {
                "bare spawn (= 1)": _bare(SHELL),
                "hookgate, command": ours["shell"],
                **({"Gemini CLI's runner": gemini(SHELL)} if gemini else {}),
            },
            runs=20,
        )
        await _report(
            "a hook in Python, or rules in Rego",
            {
                "hookgate, command (= 1)": ours["python"],
                "bare spawn": _bare(script),
                **({"Gemini CLI's runner": gemini(script)} if gemini else {}),
                "hookgate, persistent": ours["persistent"],
                "hookgate, http": ours["http"],
                "hookgate, rego": ours["rego"],
                "hookgate, runtime": ours["runtime"],
            },
            runs=10,
        )


def _input() -> bytes:
    base = {"session_id": SESSION.session_id, "cwd": "/", "hook_event_name": EVENT.name}
    return Document({**base, **EVENT.fields("text")}).json


def _bare(line: str) -> Case:
    """What any program does to ask another: start, write, read to the end, wait."""
    data = _input()

    async def run(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            subprocess.run(["/bin/bash", "-c", line], input=data, capture_output=True, check=True)  # noqa: ASYNC221  # the loop waits
        return (time.perf_counter() - begin) / count * 1e6

    return run


@contextlib.asynccontextmanager
async def _ours(folder: Path, name: str, hook: dict[str, Any]) -> AsyncIterator[Case]:
    """The whole way of an event: plan, input document, run, output read and merged."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"hooks": {"BeforeTool": [{"hooks": [{**hook, "name": name}]}]}}))
    configuration = load_settings([path])
    engine = Engine(configuration, make_runners(configuration.hooks()))

    async def run(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            outcome = await engine.fire(EVENT, SESSION)
            assert not any(each.error for each in outcome.runs), outcome.runs
        return (time.perf_counter() - begin) / count * 1e6

    try:
        yield run
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def _service() -> AsyncIterator[str]:
    """A hook that is a service, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.hooks", "service", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


async def _serve() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        json.loads(await request.read())
        return web.Response(body=b"{}", content_type="application/json")

    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _gemini_cli() -> AsyncIterator[Callable[[str], Case] | None]:
    """Gemini CLI's runner in a process of its own; None where Node or Gemini CLI is missing."""
    if not (shutil.which("node") and GEMINI_CLI.is_dir()):
        print("hooks: no Node or no Gemini CLI here (make node), so its runner is left out")
        yield None
        return
    pipe = asyncio.subprocess.PIPE
    program = Path(__file__).with_name("gemini_runner.mjs")
    process = await asyncio.create_subprocess_exec(
        "node", str(program), str(GEMINI_CLI), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout

    def case(line: str) -> Case:
        async def run(count: int) -> float:
            order = {"command": line, "input": json.loads(_input()), "count": count}
            stdin.write(json.dumps(order).encode() + b"\n")
            return float(await stdout.readline())

        return run

    try:
        yield case
    finally:
        process.kill()
        await process.wait()


async def _report(title: str, cases: Mapping[str, Case], runs: int) -> None:
    """Medians of interleaved rounds, in microseconds and as a ratio to the first case."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        await case(3)
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name].append(await case(runs))
    base = statistics.median(next(iter(times.values())))
    print(f"hooks: {title}, one at a time")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:46} {median:9.1f} us   {median / base:7.4f}")
    print()


if __name__ == "__main__":
    asyncio.run(_serve()) if sys.argv[1:] == ["service"] else main()
