"""`hooks enable | disable | enable-all | disable-all`, written into the settings of the user."""

from collections.abc import Sequence
from pathlib import Path

from hookgate.hooks.managing.edits import rewrite, with_disabled, with_switch
from hookgate.hooks.settings import read_places
from hookgate.proxy.managing.loading import read_hooks
from hookgate.proxy.sources import Sources


def switch(sources: Sources, names: Sequence[str], on: bool) -> int:
    """Switch hooks on or off by name. Raises ValueError for a name that no hook has."""
    hooks = read_hooks(sources)
    for name in names:
        above = [hook for hook in hooks.named(name) if hook.layer == "policy"]
        if above and not on:
            print(f"{name!r} also stands in the policy {above[0].source}, which nobody below can switch off.")
    path = _user_settings()
    rewrite(path, lambda text: with_disabled(text, names, disabled=not on))
    still = {hook.name for hook in read_places(sources.places()).off} & set(names)
    for name in names:
        print(f"{name!r} is {'on' if on else 'off'}: {path}")
        if on and name in still:
            print(f"{name!r} stays off all the same: another settings file disables it, too.")
    return 0


def switch_all(on: bool) -> int:
    """Switch the user's hooks on or off as a whole."""
    path = _user_settings()
    rewrite(path, lambda text: with_switch(text, on))
    print(f"Hooks are {'on' if on else 'off'}: {path}")
    return 0


def _user_settings() -> Path:
    return Path.home() / ".gemini" / "settings.json"
