"""How many attacks flow rules stop, how many tasks they get in the way of, and what they cost.

    python -m benchmarks.flows [--conversations FILE] [--template NAME] [--cost]

FILE has conversations as JSON lines, such as those of AgentDojo. Each line is an object with `kind` (`user`
or `injection`), `suite`, `task`, `prompt` and `calls`, a list of objects with `tool`, `args`, `result` and
`error`. Lines of the kind `injection` also have `attack`, `injection`, and `bad`, the calls that the attacker
wants. A conversation is stopped if the template's hooks deny one of its `calls`, or one of its `bad` calls.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.gateway.configurations import gateway
from benchmarks.gateway.instructions import CountedLoad
from benchmarks.gateway.measuring import upstream
from benchmarks.gateway.traffic.upstream import AGENT
from benchmarks.payloads import conversation_requests
from benchmarks.processes import Server

from hookgate.hooks import AfterTool, BeforeAgent, BeforeTool, Engine, SessionContext, load_settings
from hookgate.hooks.session_notes import MemoryNotes
from hookgate.proxy.cli.init import setups

Json = dict[str, Any]
TEMPLATE = "flows-assistant"


class Conversation:
    """One session with the hooks of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._session = engine, SessionContext("s", notes=MemoryNotes())

    async def begin(self, prompt: str) -> None:
        await self._engine.fire(BeforeAgent(prompt, []), self._session)

    async def denial(self, call: Json) -> str | None:
        """Return the reason why a call is denied, or None."""
        outcome = await self._engine.fire(BeforeTool(call["tool"], call["args"]), self._session)
        return outcome.verdict.reason if outcome.verdict.denied else None

    async def read(self, call: Json) -> None:
        error = {"error": call["error"]} if call["error"] else {}
        response = {"llmContent": call["result"], "returnDisplay": call["result"], **error}
        await self._engine.fire(AfterTool(call["tool"], call["args"], response), self._session)


async def stopped_by(engine: Engine, line: Json) -> tuple[str, str] | None:
    """Return the tool whose call is denied and the reason, or None if the task or the attack succeeds."""
    conversation = Conversation(engine)
    await conversation.begin(line["prompt"])
    if line["kind"] == "injection":  # what the model reads on the way to the attack
        for call in line["calls"]:
            await conversation.read(call)
    for call in line["bad" if line["kind"] == "injection" else "calls"]:
        if reason := await conversation.denial(call):
            return call["tool"], reason
        await conversation.read(call)
    return None


def conversations(file: Path) -> Iterator[Json]:
    """Yield the conversations in a file."""
    with file.open(encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            if line["kind"] in ("user", "injection"):
                yield line


async def count_stopped(file: Path, template: str) -> None:
    """Print what the hooks of a template stop."""
    [settings] = [path for path in setups("policies")[template].files if path.name == "settings.json"]
    engine = Engine(load_settings([settings]))
    of: Counter[tuple[str, str]] = Counter()
    stopped: Counter[tuple[str, str]] = Counter()
    without, missed, disturbed = Counter[tuple[str, str]](), Counter[tuple[str, str]](), []
    for line in conversations(file):
        is_attack = line["kind"] == "injection"
        if is_attack and not line["bad"]:
            without[line["suite"], line["injection"]] += 1
            continue
        key = line["suite"], line["attack"] if is_attack else "user tasks"
        of[key] += 1
        found = await stopped_by(engine, line)
        if found is not None:
            stopped[key] += 1
            if not is_attack:
                disturbed.append(f"{line['suite']} {line['task']}: {found[1]}")
        elif is_attack:
            missed[line["suite"], line["injection"]] += 1
    await engine.close()
    _print_table(of, stopped)
    print("\nUser tasks that are stopped:", *disturbed, sep="\n  ")
    print(
        "\nAttacks that are not stopped:", *(f"{key}: {n}" for key, n in sorted(missed.items())), sep="\n  "
    )
    print("\nWithout any call:", *(f"{key}: {n}" for key, n in sorted(without.items())), sep="\n  ")


def _print_table(of: Counter[tuple[str, str]], stopped: Counter[tuple[str, str]]) -> None:
    suites = sorted({suite for suite, _ in of})
    print("| stopped | " + " | ".join(suites) + " | all |")
    print("|---" * (len(suites) + 2) + "|")
    attacks = sorted({name for _, name in of} - {"user tasks"})
    for names in (*([name] for name in attacks), attacks, ["user tasks"]):
        title = names[0] if len(names) == 1 else "**all attacks**"
        cells = [_share(of, stopped, [suite], names) for suite in suites]
        print(f"| {title} | " + " | ".join([*cells, _share(of, stopped, suites, names)]) + " |")


def _share(
    of: Counter[tuple[str, str]], stopped: Counter[tuple[str, str]], suites: list[str], names: list[str]
) -> str:
    count = sum(stopped[suite, name] for suite in suites for name in names)
    total = sum(of[suite, name] for suite in suites for name in names)
    return f"{count} of {total} ({count / total:.1%})" if total else ""


ROUNDS = 9
_NOTHING = {"type": "runtime", "action": "./nothing.py:nothing"}
_NO_RULES = {
    "hooks": {
        event: [{"hooks": [{"name": f"nothing-{event}", **_NOTHING}]}]
        for event in ("BeforeAgent", "AfterTool", "BeforeTool")
    }
}
"""Hooks of the same events that do nothing."""


def measure_cost(template: str) -> None:
    """Print the processor time of an agent's calls without hooks, with hooks that do nothing, with rules."""
    [settings] = [path for path in setups("policies")[template].files if path.name == "settings.json"]
    lines = [line for line in settings.read_text().splitlines() if not line.lstrip().startswith("//")]
    environment = {"HOOKGATE_AUDIT__ENABLED": "false"}
    configurations = {
        "no hooks": None,
        "hooks that do nothing": _NO_RULES,
        template: json.loads("".join(lines)),
    }
    with ExitStack() as stack:
        origin = stack.enter_context(upstream()).url
        servers = {}
        for name, hooks in configurations.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "nothing.py").write_text("async def nothing(event):\n    return None\n")
            servers[name] = stack.enter_context(gateway(hooks, origin, folder, environment))
        rounds = [
            {name: _milliseconds(server, number) for name, server in servers.items()}
            for number in range(ROUNDS)
        ][1:]
    print("\nProcessor time per call, in conversations of 40 turns:")
    for name in configurations:
        print(f"  {name}: {statistics.median(times[name] for times in rounds):.2f} ms")
    ratio = statistics.median(times[template] / times["hooks that do nothing"] for times in rounds)
    print(f"The median ratio of the last two in {len(rounds)} rounds is {ratio:.3f}.")


def _milliseconds(server: Server, number: int) -> float:
    bodies = [body for seed in range(3) for body in conversation_requests(1000 * number + seed)]
    before = server.cpu_seconds()
    CountedLoad(AGENT, [], bodies).run(server.url, bodies)
    server.wait_until_idle()
    return (server.cpu_seconds() - before) / len(bodies) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--conversations", type=Path, metavar="FILE")
    parser.add_argument(
        "--template", default=TEMPLATE, choices=[n for n in setups("policies") if "flows" in n]
    )
    parser.add_argument("--cost", action="store_true", help="measure the processor time of an agent's calls")
    given = parser.parse_args()
    if given.conversations:
        asyncio.run(count_stopped(given.conversations, given.template))
    if given.cost:
        measure_cost(given.template)


if __name__ == "__main__":
    main()
