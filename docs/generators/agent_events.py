"""Generate docs/agent-events.md from the dialects of agents' own hooks.

PYTHONPATH=docs python -m generators.agent_events > docs/agent-events.md
"""

from generators.credential_kinds import table

from hookgate.hooks.agents import AGENT_DIALECTS, EventRow
from hookgate.hooks.agents.dialect import ASPECTS

_INTRODUCTION = """\
# Events of other agents

<!-- Made by: PYTHONPATH=docs python -m generators.agent_events > docs/agent-events.md -->

    hookgate shim install claude-code

As which event the gateway judges what [other agents' own hooks](agent-hooks.md) report, and what its
answer can express in the agent's dialect. What it cannot express [becomes a denial or a
warning](agent-hooks.md#failing-closed).
"""


def agent_events() -> str:
    """Return the page as Markdown."""
    header = ["event", "judged as", "the answer can express"]
    chapters = [
        f"## {dialect.title}\n\n"
        + table(
            header,
            [
                [f"`{event}`", row.event or "no event", _expressible(row)]
                for event, row in dialect.rows.items()
            ],
        )
        for dialect in AGENT_DIALECTS.values()
    ]
    return "\n".join([_INTRODUCTION, *chapters])


def _expressible(row: EventRow) -> str:
    always, also = (
        ", ".join(aspect for aspect in ASPECTS if aspect in aspects)
        for aspects in (row.expressible, row.also_expressible)
    )
    return (always or "nothing") + (f"; for MCP servers' tools also {also}" if also else "")


if __name__ == "__main__":
    print(agent_events(), end="")
