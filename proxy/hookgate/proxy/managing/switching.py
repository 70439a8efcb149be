"""`hooks enable | disable | enable-all | disable-all`, written into the settings of the user.

Where the sources are files that were named one by one, nobody reads the user's: it is the first of them then.
"""

from collections.abc import Sequence
from pathlib import Path

from hookgate.hooks.managing.edits import rewrite, with_disabled, with_switch
from hookgate.hooks.settings import read_places
from hookgate.proxy.managing.loading import Hooks, read_hooks
from hookgate.proxy.sources import Sources


def switch(sources: Sources, names: Sequence[str], on: bool) -> int:
    """Switch hooks on or off by name. Raises ValueError for a name that cannot be switched."""
    print(*switched(sources, names, on), sep="\n")
    return 0


def switched(sources: Sources, names: Sequence[str], on: bool) -> list[str]:
    """Switch hooks on or off by name, and say what came of it.

    Raises ValueError for an unknown name, and for one to switch off that a policy alone has.
    """
    above = _above(read_hooks(sources), names, on)
    path = _switches(sources)
    rewrite(path, lambda text: with_disabled(text, names, disabled=not on))
    still = {hook.name for hook in read_places(sources.places()).off} & set(names)
    told = []
    for name in names:
        also = f"; but {_stays_on(name, above[name])}" if name in above else ""
        told.append(f"{name!r} is {'on' if on else 'off'}: {path}{also}")
        if on and name in still:
            told.append(f"{name!r} stays off all the same: another settings file disables it, too.")
    return told


def _above(hooks: Hooks, names: Sequence[str], on: bool) -> dict[str, Path]:
    """The policy file that has a hook of the name too, by the names that shall be off."""
    found: dict[str, Path] = {}
    for name in names:
        named = hooks.named(name)
        files = [hook.source for hook in named if hook.layer == "policy"]
        if files and not on:
            if len(files) == len(named):
                raise ValueError(_stays_on(name, files[0]))
            found[name] = files[0]
    return found


def _stays_on(name: str, policy: Path) -> str:
    return f"{name!r} stays on in the policy {policy}, which nobody below can switch off"


def switch_all(sources: Sources, on: bool) -> int:
    """Switch hooks on or off as a whole; a policy's stay. Raises ValueError where there are no others."""
    hooks = read_hooks(sources).all()
    stay = [] if on else [hook for hook in hooks if hook.layer == "policy"]
    if stay and len(stay) == len(hooks):
        raise ValueError(
            f"every hook stands in the policy {stay[0].source}, which nobody below can switch off"
        )
    path = _switches(sources)
    rewrite(path, lambda text: with_switch(text, on))
    but = ", ".join(sorted({repr(hook.name) for hook in stay}))
    print(f"Hooks are {'on' if on else 'off'}: {path}{f'; but the policy keeps {but} on' if but else ''}")
    return 0


def _switches(sources: Sources) -> Path:
    """The settings file that holds the switches: one that these sources are read from."""
    if sources.project is None and sources.hooks:
        return sources.hooks[0]
    return Path.home() / ".gemini" / "settings.json"
