"""`hookgate tools list | accept`: shows pinned tool declarations, and accepts changes."""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from hookgate.hooks.policies.pins import Declaration, PinnedTool, Pins


def list_tools(state: Path) -> int:
    """Print every tool that the policy `tools` has pinned, and its changes that are not accepted."""
    tools = Pins(state).tools()
    for name, tool in sorted(tools.items()):
        print(f"{name!r}: {'changed' if tool.changed else 'unchanged'}, first seen {tool.accepted[0].seen}")
        for changed in tool.changed:
            _show(tool, changed)
    if not tools:
        print(f"No tool is pinned in {state}.")
    return 0


def accept_tools(state: Path, names: Sequence[str], yes: bool) -> int:
    """Show the changes of these tools, and accept them if the user agrees. Returns 1 if not, else 0.

    Raises ValueError if a name is not pinned.
    """
    pins = Pins(state)
    known = pins.tools()
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no tool {unknown[0]!r} is pinned; `hookgate tools list` lists the pinned tools")
    shown = {name: known[name] for name in names if known[name].changed}
    for name, tool in shown.items():
        print(f"{name!r}:")
        for changed in tool.changed:
            _show(tool, changed)
    if not shown:
        print("The declarations of these tools have not changed.")
        return 0
    if not yes and not _agreed():
        print("Nothing was accepted.")
        return 1
    for name, tool in shown.items():  # only the changes that were shown, not those that arrived meanwhile
        pins.accept(name, [changed.digest for changed in tool.changed])
    print(f"Accepted: {', '.join(map(repr, shown))}.")
    return 0


def _show(tool: PinnedTool, changed: Declaration) -> None:
    before = tool.accepted[-1]
    lines = difflib.unified_diff(
        before.text.splitlines(),
        changed.text.splitlines(),
        f"accepted {before.seen}",
        f"seen {changed.seen}",
        lineterm="",
    )
    # Clients wrote these, so control characters for the terminal are replaced.
    print("\n".join("    " + "".join(c if c.isprintable() else "\ufffd" for c in line) for line in lines))


def _agreed() -> bool:
    if not sys.stdin.isatty():
        print("There is no terminal to ask on; use --yes to agree beforehand.")
        return False
    return input("Accept this? [y/N] ").strip().lower() in ("y", "yes")
