"""`hooks trust`: a look at what a project wants to run, and leave for it to run."""

import sys
from collections.abc import Sequence

from hookgate.hooks.scripts import scripts_of
from hookgate.hooks.settings import Hook
from hookgate.proxy.managing.loading import read_hooks
from hookgate.proxy.sources import Sources


def trust(sources: Sources, names: Sequence[str], yes: bool) -> int:
    """Show the hooks that are not trusted and trust them once their user agrees; 1 when that is refused."""
    hooks = read_hooks(sources)
    wanted = [hook for name in names for hook in hooks.named(name)] if names else hooks.all()
    new = [hook for hook in wanted if not hooks.trust.trusts(hook)]
    if not new:
        print("Every project hook is trusted already.")
        return 0
    for hook in new:
        _describe(hook)
    if not yes and not _agreed(len(new)):
        print("Nothing was trusted; these hooks do not run.")
        return 1
    hooks.trust.trust(new)
    print(f"Trusted: {', '.join(hook.name for hook in new)}. A change to any of them needs this again.")
    return 0


def _describe(hook: Hook) -> None:
    """Everything that the trust is in; what the terminal would act on is spelt out."""
    print(printable(f"{hook.event} hook {hook.name!r} of {hook.source}"))
    print(printable(f"  runs     {hook.runs}"))
    for name, value in getattr(hook.config, "env", {}).items():
        print(printable(f"  with     {name}={value}"))
    print(printable(f"  scripts  {', '.join(map(str, scripts_of(hook))) or 'none of its own'}"))


def printable(text: str) -> str:
    """The text with control characters, and what turns its direction, as escapes."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        print("There is nobody to ask; to agree beforehand: --yes")
        return False
    return input(f"Let {'it' if count == 1 else 'them'} run from now on? [y/N] ").strip().lower() in (
        "y",
        "yes",
    )
