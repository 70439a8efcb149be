"""Single hooks of every kind, as the engine runs them."""

import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.places import DOCS

from hookgate.hooks.events.base import Document
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runners import Runner
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import AnyConfig, Hook

KEY = {"messages": [{"role": "user", "content": "-----BEGIN PRIVATE KEY-----"}]}
GREETING = {"messages": [{"role": "user", "content": "hi"}]}
KEPT_HERE = {"decision": "deny", "reason": "private keys stay here"}
"""What the documented examples say to a request with a KEY; to a GREETING they say nothing."""


def hook_of(config: AnyConfig, root: Path = Path("/"), name: str = "guard") -> Hook:
    return Hook(name, config, root, root / "settings.json")


@asynccontextmanager
async def running(hook: Hook, **more: Any) -> AsyncIterator[Runner]:
    """The hook's runner, closed in the end."""
    runner = make_runners([hook], **more)[hook]
    try:
        yield runner
    finally:
        await runner.close()


async def ask(runner: Runner, event: str = "BeforeModel", session: str = "s-1", **fields: Any) -> Any:
    """One run, with these fields as the input."""
    return await runner.run(event, SessionContext(session), Document(fields))


def documented(name: str) -> str:
    """The example of docs/hook-kinds.md that carries this name in its first lines."""
    page = (DOCS / "hook-kinds.md").read_text()
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", page, re.MULTILINE)
    [found] = [block for block in blocks if re.search(rf"^ {{4}}(?:#|//) {re.escape(name)}$", block, re.M)]
    return textwrap.dedent(found).strip() + "\n"
