"""`hooks enable | disable | enable-all | disable-all`, written into the settings of the user.

Where the sources are files that were named one by one, nobody reads the user's: it is the first of them then.
"""

from collections.abc import Sequence
from pathlib import Path

from hookgate.hooks.managing.edits import rewrite, with_disabled, with_switch
from hookgate.hooks.settings import read_places
from hookgate.proxy.managing.loading import read_hooks
from hookgate.proxy.sources import Sources


def switch(sources: Sources, names: Sequence[str], on: bool) -> int:
    """Switch hooks on or off by name. Raises ValueError for a name that no hook has."""
    print(*switched(sources, names, on), sep="\n")
    return 0


def switched(sources: Sources, names: Sequence[str], on: bool) -> list[str]:
    """Switch hooks on or off by name, and say what came of it. Raises ValueError for an unknown name."""
    hooks = read_hooks(sources)
    told = []
    for name in names:
        above = [hook for hook in hooks.named(name) if hook.layer == "policy"]
        if above and not on:
            told.append(
                f"{name!r} also stands in the policy {above[0].source}, which nobody below can switch off."
            )
    path = _switches(sources)
    rewrite(path, lambda text: with_disabled(text, names, disabled=not on))
    still = {hook.name for hook in read_places(sources.places()).off} & set(names)
    for name in names:
        told.append(f"{name!r} is {'on' if on else 'off'}: {path}")
        if on and name in still:
            told.append(f"{name!r} stays off all the same: another settings file disables it, too.")
    return told


def switch_all(sources: Sources, on: bool) -> int:
    """Switch hooks on or off as a whole; a policy file's stay."""
    path = _switches(sources)
    rewrite(path, lambda text: with_switch(text, on))
    print(f"Hooks are {'on' if on else 'off'}: {path}")
    return 0


def _switches(sources: Sources) -> Path:
    """The settings file that holds the switches: one that these sources are read from."""
    if sources.project is None and sources.hooks:
        return sources.hooks[0]
    return Path.home() / ".gemini" / "settings.json"
