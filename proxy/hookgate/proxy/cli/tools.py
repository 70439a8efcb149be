"""`hookgate tools list | accept | forget`: shows pinned tools, accepts changes, and unpins tools."""

import argparse
import difflib
import json
from collections.abc import Mapping, Sequence

from hookgate.hooks.policies.pins import Declaration, PinnedTool, Pins
from hookgate.proxy.cli.terminal import confirm
from hookgate.proxy.config import read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.store import Store


async def run_tools(args: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises StoreError, and ValueError for unknown names."""
    config = read_config(vars(args)).config
    async with Store(config.store, state := find_sources(config.hooks).state) as store:
        pins = Pins(store.pins())
        match args.tools_command:
            case "list":
                where = "the database" if store.url() else str(state)
                return await _list_tools(pins, where, as_json=args.json)
            case "accept":
                return await _accept_tools(pins, args.name, args.yes)
            case _:
                return await _forget_tools(pins, args.name)


async def _list_tools(pins: Pins, where: str, *, as_json: bool) -> int:
    """Print every tool that the policy `tools` has pinned, and its changes that are not accepted."""
    tools = await pins.tools()
    if as_json:
        document = [
            {"name": name, "accepted": _declarations(tool.accepted), "changed": _declarations(tool.changed)}
            for name, tool in sorted(tools.items())
        ]
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    for name, tool in sorted(tools.items()):
        print(f"{name!r}: {'changed' if tool.changed else 'unchanged'}, first seen {tool.accepted[0].seen}")
        for changed in tool.changed:
            _show(tool, changed)
    if not tools:
        print(f"No tool is pinned in {where}.")
    return 0


def _declarations(declarations: Sequence[Declaration]) -> list[dict[str, str]]:
    return [{"seen": each.seen, "declaration": each.text} for each in declarations]


async def _accept_tools(pins: Pins, names: Sequence[str], yes: bool) -> int:
    """Show the changes of these tools, and accept them if the user agrees. Returns 1 if not, else 0.

    Raises ValueError if a name is not pinned.
    """
    known = await _known(pins, names)
    shown = {name: known[name] for name in names if known[name].changed}
    for name, tool in shown.items():
        print(f"{name!r}:")
        for changed in tool.changed:
            _show(tool, changed)
    if not shown:
        print("The declarations of these tools have not changed.")
        return 0
    if not confirm("Accept this?", yes=yes):
        print("Nothing was accepted.")
        return 1
    for name, tool in shown.items():  # only the changes that were shown, not those that have arrived since
        await pins.accept(name, [changed.digest for changed in tool.changed])
    print(f"Accepted: {', '.join(map(repr, shown))}.")
    return 0


async def _forget_tools(pins: Pins, names: Sequence[str]) -> int:
    """Unpin tools, so that their next declarations count as the first. Raises ValueError for unknown ones."""
    await _known(pins, names)
    await pins.forget(names)
    print(f"Not pinned any more: {', '.join(map(repr, names))}.")
    return 0


async def _known(pins: Pins, names: Sequence[str]) -> Mapping[str, PinnedTool]:
    """Return the tools by name. Raises ValueError if a name is not pinned."""
    known = await pins.tools(names)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no tool {unknown[0]!r} is pinned; `hookgate tools list` lists the pinned tools")
    return known


def _show(tool: PinnedTool, changed: Declaration) -> None:
    before = tool.accepted[-1]
    lines = difflib.unified_diff(
        before.text.splitlines(),
        changed.text.splitlines(),
        f"accepted {before.seen}",
        f"seen {changed.seen}",
        lineterm="",
    )
    for line in lines:
        print("    " + escape_controls(line, keep_lines=False))  # clients wrote it
