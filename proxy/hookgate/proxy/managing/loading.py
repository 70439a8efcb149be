"""What the commands know of the configured hooks."""

from dataclasses import dataclass

from hookgate.hooks import SettingsError
from hookgate.hooks.settings import Hook, Loaded, read_places
from hookgate.hooks.trust import TrustStore
from hookgate.proxy.sources import Sources


@dataclass(frozen=True, slots=True)
class Hooks:
    """Every hook of the sources, those that are off included."""

    loaded: Loaded
    trust: TrustStore

    def all(self) -> list[Hook]:
        return [*self.loaded.configuration.hooks(), *self.loaded.off]

    def named(self, name: str) -> list[Hook]:
        """The hooks of this name. Raises ValueError, with the names that exist, when there is none."""
        found = [hook for hook in self.all() if hook.name == name]
        if not found:
            names = ", ".join(sorted({repr(hook.name) for hook in self.all()})) or "none at all"
            raise ValueError(f"there is no hook {name!r}; there are: {names}")
        return found

    def state_of(self, hook: Hook) -> str:
        """`on`, or why it is not simply on."""
        if hook in self.loaded.off:
            return "off"
        if not self.trust.trusts(hook):
            return "untrusted"
        return "observe" if hook.config.mode == "observe" else "on"


def read_hooks(sources: Sources, *, partly: bool = False) -> Hooks:
    """Read all settings. Raises SettingsError for what is wrong with them, unless `partly` is good enough."""
    loaded = read_places(sources.places())
    if loaded.problems and not partly:
        raise SettingsError(loaded.problems)
    return Hooks(loaded, TrustStore(sources.state))
