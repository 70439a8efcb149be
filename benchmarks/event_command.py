"""What one `hookgate event` costs an agent, from its start to its end, next to a Python that does nothing.

A trivial service stands for the gateway, so this is the command alone; bytecode is at hand, as it is where
hookgate is installed. `python -m` also pays for `runpy`.
"""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROUNDS = 60

INPUT = {
    "session_id": "benchmark",
    "transcript_path": "",
    "cwd": "/",
    "hook_event_name": "BeforeTool",
    "tool_name": "Write",
    "tool_input": {"file_path": "notes.txt", "content": "word " * 180},
}
DENY = b'{"decision": "deny", "reason": "Not that."}'
SCRIPT = "import sys\nfrom hookgate.proxy.__main__ import main\nsys.exit(main())\n"
"""What an installer writes as `hookgate`; older ones import `re` as well."""


def main() -> None:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "hookgate").write_text(SCRIPT)
        (folder / "older").write_text(f"import re\n{SCRIPT}")
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        silent, denying = (stack.enter_context(_service(answer)) for answer in (b"{}", DENY))
        module = ("-m", "hookgate.shim.command.event")
        script, older = (str(folder / "hookgate"), "event"), (str(folder / "older"), "event")
        _report(
            {
                "bare Python start (= 1)": ("-c", "pass"),
                "hookgate event, nothing said": (*script, "BeforeTool", "--gateway", silent),
                "hookgate event, denied": (*script, "BeforeTool", "--gateway", denying),
                "hookgate event, from Claude Code": (
                    *(*script, "PreToolUse", "--from", "claude-code", "--gateway", denying),
                ),
                "hookgate event, script of an older pip": (*older, "BeforeTool", "--gateway", silent),
                "python -m hookgate.shim.command.event": (*module, "BeforeTool", "--gateway", silent),
            },
            environment,
        )


def _report(cases: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> None:
    """Medians of interleaved rounds, in milliseconds and as a ratio to the first case."""
    data = json.dumps(INPUT).encode()
    times: dict[str, list[float]] = {name: [] for name in cases}
    for counted in [False] * 2 + [True] * ROUNDS:
        for name, words in cases.items():
            begin = time.perf_counter()
            ended = subprocess.run(
                [sys.executable, *words], input=data, capture_output=True, env=environment, check=False
            )
            took = (time.perf_counter() - begin) * 1e3
            assert ended.returncode in (0, 2), ended.stderr
            assert b"unjudged" not in ended.stderr, ended.stderr
            if counted:
                times[name].append(took)
    base = statistics.median(next(iter(times.values())))
    print("event_command: one event, from start to end")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:46} {median:9.1f} ms   {median / base:7.4f}")
    print()


@contextlib.contextmanager
def _service(answer: bytes) -> Iterator[str]:
    """A service that always answers the same, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.event_command", "service", answer.decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def _serve(answer: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))
        await writer.drain()
        await reader.read()  # the rest of the request, up to the client's end
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[2].encode())) if sys.argv[1:2] == ["service"] else main()
