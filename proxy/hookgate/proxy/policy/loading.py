"""The settings of hooks, from files and a pushed policy: loads and watches them, and switches hooks."""

import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.hooks import Configuration, Engine, SettingsError
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.layers_in_force import NotInForce
from hookgate.hooks.policy_environment import AccessTokens, Counters, PinnedTools, PriceTable
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runs import Health, HookStatus, TrustCheck
from hookgate.hooks.settings import EVENTS, BuiltinConfig, Hook, Loaded, read_sources
from hookgate.hooks.settings.editing import rewrite, with_disabled, with_switch, write_atomically
from hookgate.hooks.settings.policies import POLICIES
from hookgate.hooks.trust import TrustStore
from hookgate.proxy.background import running_beside
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.errors import pluralize
from hookgate.proxy.policy.pushed import PushedPolicy
from hookgate.proxy.store import Store, StoreError
from hookgate.translator.fields import JsonObject

if TYPE_CHECKING:  # its library is loaded with the store
    from hookgate.proxy.store.counters import SqlCounters

log = logging.getLogger("hookgate")


@dataclass(frozen=True, slots=True)
class ConfiguredHooks:
    """All hooks of the sources, including those that are switched off."""

    loaded: Loaded
    trust: TrustStore

    def all(self) -> list[Hook]:
        return [*self.loaded.configuration.hooks(), *self.loaded.off]

    def named(self, name: str) -> list[Hook]:
        """Return the hooks with a name. Raises ValueError, which lists all names, if there are none."""
        found = [hook for hook in self.all() if hook.name == name]
        if not found:
            names = ", ".join(sorted({repr(hook.name) for hook in self.all()}))
            available = f"available hooks: {names}" if names else "no hooks are configured"
            raise ValueError(f"no hook named {name!r}; {available}")
        return found

    def state_of(self, hook: Hook) -> str:
        """Return `on`, or why the hook is off or not enforced."""
        if hook in self.loaded.off:
            return "off"
        if not self.trust.trusts(hook):
            return "untrusted"
        return "observe" if hook.config.mode == "observe" else "on"


def read_configured_hooks(sources: Sources, *, partly: bool = False) -> ConfiguredHooks:
    """Read all settings. Raises SettingsError if they contain problems, unless `partly` is true."""
    loaded = read_sources(sources.places())
    if loaded.problems and not partly:
        raise SettingsError(loaded.problems)
    return ConfiguredHooks(loaded, TrustStore(sources.state))


_STATUS_FILE = "hooks-status.json"
_STATUS_SECONDS = 2.0
_PRIVATE = 0o600
_SEE_LOG = "see the gateway's log"
_SURPRISING = f"returned surprising output; {_SEE_LOG}"


BeginCounts = Callable[["SqlCounters", Configuration], Counters]
"""Returns counters in which the counts of a configuration's limits do not begin with 0."""


def load_policy(
    sources: Sources,
    *,
    store: Store | None = None,
    prices: PriceTable | None = None,
    access_tokens: AccessTokens | None = None,
    begin_counts: BeginCounts | None = None,
) -> EngineReloader:
    """Return an engine for the settings of `sources`. Raises SettingsError if they are unusable.

    Policies store counters and pins in `store`, which is opened when first needed; without it, in memory.
    Those that call Google's services use `access_tokens`. Counts in the store begin as `begin_counts` says.
    """
    refusal = TrustStore(sources.state).refusal

    def make(configuration: Configuration, health: Health) -> Engine:
        counters, pins = _stored(configuration, refusal, store, begin_counts) if store else (None, None)
        runners = make_runners(
            configuration.hooks(),
            trust_check=refusal,
            http_targets=configuration.http_targets,
            state=sources.state,
            counters=counters,
            pins=pins,
            prices=prices,
            access_tokens=access_tokens,
        )
        _check_flows(configuration, refusal)
        return Engine(configuration, runners, trust_check=refusal, health=health)

    return EngineReloader(sources.places, make)


def _check_flows(configuration: Configuration, refusal: TrustCheck) -> None:
    """Check the hooks of the policy flows together. Raises SettingsError."""
    hooks = [hook for hook in configuration.hooks() if refusal(hook) is None]
    if not any(isinstance(hook.config, BuiltinConfig) and hook.config.builtin == "flows" for hook in hooks):
        return
    from hookgate.hooks.policies.flows.hooks_check import flow_problems  # noqa: PLC0415  # few gateways need it

    if problems := flow_problems(hooks):
        raise SettingsError(problems)


def _stored(
    configuration: Configuration, refusal: TrustCheck, store: Store, begin_counts: BeginCounts | None
) -> tuple[Counters | None, PinnedTools | None]:
    """Return the store's counters and pins if a hook needs them. Raises SettingsError if that fails."""
    hooks = [hook.config for hook in configuration.hooks() if refusal(hook) is None]
    configs = [config for config in hooks if isinstance(config, BuiltinConfig)]
    policies = [(POLICIES[config.builtin], config) for config in configs if config.builtin in POLICIES]
    counts = any(policy.counts for policy, _ in policies)
    pinned = any(policy.pins and config.options.get("pin") for policy, config in policies)
    try:
        counters: Counters | None = store.counters() if counts else None
        if counts and begin_counts is not None:
            counters = begin_counts(store.counters(), configuration)
        return counters, store.pins() if pinned else None
    except StoreError as error:
        raise SettingsError(str(error)) from None


@asynccontextmanager
async def running_policy(
    reloader: EngineReloader, state: Path | None, pushed: PushedPolicy | None = None
) -> AsyncIterator[None]:
    """Watch the settings, and follow the pushed policy, while the block runs; then close the hooks.

    With a state folder, the hooks' health is saved there while the block runs.
    """
    followed = [] if pushed is None else [pushed.follow(reloader)]
    try:
        async with running_beside(reloader.watch(), *followed):
            with nullcontext() if state is None else _saving_status(reloader, state / _STATUS_FILE):
                yield
    finally:
        await reloader.close()


@contextmanager
def _saving_status(reloader: EngineReloader, path: Path) -> Iterator[None]:
    """Save the hooks' health in a thread while the block runs."""
    ended = threading.Event()
    saver = threading.Thread(target=_save_status, args=(reloader, path, ended), daemon=True)
    saver.start()
    try:
        yield
    finally:
        ended.set()
        saver.join()


def _save_status(reloader: EngineReloader, path: Path, ended: threading.Event) -> None:
    """Save changes of the health every few seconds, and once at the end."""
    written = None
    while True:
        is_last = ended.is_set()
        try:
            written = _write(path, reloader, written)
        except Exception:
            log.exception("the hooks' status could not be saved; please report this")
        if is_last:
            return
        ended.wait(_STATUS_SECONDS)


def _write(path: Path, reloader: EngineReloader, before: str | None) -> str | None:
    configuration = reloader.current.configuration
    files = {hook.key: _file_of(hook) for hook in (*configuration.off, *configuration.hooks())}
    status = {
        "revision": reloader.current.revision,
        "hooks": [
            {"event": event, "name": name, "command": what, "file": file, **_without_content(record)}
            for (event, name, what), record in reloader.health.all().items()
            if (file := files.get((event, name, what))) is not None
        ],
    }
    text = json.dumps(status, indent=2) + "\n"
    if text == before or (before is None and not reloader.health.all()):
        return before
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            path.chmod(_PRIVATE)
        write_atomically(path, text, _PRIVATE)
    except OSError as error:
        if before is None:
            log.warning("the hooks' status cannot be saved: %s; name another folder with --state", error)
    return text


def _without_content(record: HookStatus) -> JsonObject:
    """Return a status for a file. Errors and warnings may quote a call, so only the log has them."""
    error, warning = (_SEE_LOG if record.error else ""), (_SURPRISING if record.warning else "")
    return {**vars(record), "error": error, "warning": warning}


def read_status(state: Path, hooks: Iterable[Hook]) -> dict[Hook, dict[str, Any]]:
    """Return the health of these hooks that the last gateway with this state folder saved.

    Hooks of other files are not in the result, even if they have the same name and command.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        saved = json.loads((state / _STATUS_FILE).read_text(encoding="utf-8"))["hooks"]
        found = {tuple(each[name] for name in ("event", "name", "command", "file")): each for each in saved}
        keys = {hook: (*hook.key, _file_of(hook)) for hook in hooks}
        return {hook: found[key] for hook, key in keys.items() if key in found}
    return {}


def _file_of(hook: Hook) -> str:
    """Return the absolute path of the hook's settings file; empty if its settings are not in a file."""
    return str(hook.source.absolute()) if hook.source.is_file() else ""


def switch(sources: Sources, names: Sequence[str], on: bool) -> int:
    """Switch hooks on or off by name, and print the result. Raises ValueError if one cannot be switched."""
    print(*switch_text(sources, names, on), sep="\n")
    return 0


def switch_text(sources: Sources, names: Sequence[str], on: bool) -> list[str]:
    """Switch hooks on or off by name, and return messages about the result.

    Raises ValueError for an unknown name, and if a hook to switch off is only in policy files.
    """
    above = _above(read_configured_hooks(sources), names, on)
    path = _switches(sources)
    rewrite(path, lambda text: with_disabled(text, names, disabled=not on))
    still = {hook.name for hook in read_sources(sources.places()).off} & set(names)
    lines = []
    for name in names:
        also = f"; but {_stays_on(name, above[name])}" if name in above else ""
        lines.append(f"{name!r} is {'on' if on else 'off'}: {path}{also}")
        if on and name in still:
            lines.append(f"{name!r} stays off: another settings file also disables it.")
    return lines


def _above(hooks: ConfiguredHooks, names: Sequence[str], on: bool) -> dict[str, Path]:
    """Return the policy files that also have a hook with one of the names to switch off, by name."""
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
    return f"{name!r} stays on: it is in the policy file {policy}, and only that file can switch it off"


def switch_all(sources: Sources, on: bool) -> int:
    """Switch all hooks on or off, except those in policy files. Raises ValueError if there are no others."""
    hooks = read_configured_hooks(sources).all()
    stay = [] if on else [hook for hook in hooks if hook.layer == "policy"]
    if stay and len(stay) == len(hooks):
        raise ValueError(
            f"all these hooks are in the policy file {stay[0].source}, and only that file can switch them off"
        )
    path = _switches(sources)
    rewrite(path, lambda text: with_switch(text, on))
    but = ", ".join(sorted({repr(hook.name) for hook in stay}))
    kept = f". Still on, because they are in policy files: {but}" if but else ""
    print(f"Hooks are {'on' if on else 'off'}: {path}{kept}")
    return 0


def _switches(sources: Sources) -> Path:
    """Return the settings file to write the switches to, which is one of the sources."""
    if sources.project is None and sources.hooks:
        return sources.hooks[0]
    return Path.home() / ".gemini" / "settings.json"


def settings_out_of_force(layers: Iterable[NotInForce]) -> JsonObject:
    """Return the fields about settings that are not in force as they are now; none if all are.

    `not_in_force` has each layer with the time since when, and `settings_error` the reasons of those that
    affect all hooks.
    """
    listed = list(layers)
    errors = "\n".join(layer.reason for layer in listed if layer.binds_all)
    return {
        **({"settings_error": errors} if errors else {}),
        **({"not_in_force": [asdict(layer) for layer in listed]} if listed else {}),
    }


def log_start(engine: Engine, sources: Sources, where: str) -> None:
    """Log that the gateway is running, and its hooks."""
    warn_of_hooks(engine.configuration)
    # Settings files that configure no hook are probably a mistake.
    judges = bool(engine.configuration.groups)
    level = logging.WARNING if sources.places() and not judges else logging.INFO
    log.log(level, "%s, %s", where, describe_hooks(engine.configuration))
    for hook, reason in engine.untrusted_hooks():
        log.warning("%s hook %r %s", hook.event, hook.name, reason)


def warn_of_hooks(configuration: Configuration) -> None:
    """Log which hooks fail open, and which only observe."""
    for warning in hook_warnings(configuration):
        log.warning("%s", warning)


def describe_hooks(configuration: Configuration) -> str:
    """Return a summary of the hooks that run, and the number of those that are switched off."""
    counts = {
        event: sum(len(group.hooks) for group in groups) for event, groups in configuration.groups.items()
    }
    listed = ", ".join(f"{event} {counts[event]}" for event in EVENTS if event in counts)
    hooks = f"hooks: {listed}" if listed else "no hooks: calls are forwarded unchanged"
    count = len(configuration.switched_off)
    off = f"; {pluralize(count, 'hook is', 'hooks are')} switched off" if count else ""
    return f"{hooks}{off}; revision {configuration.revision}"


def hook_warnings(configuration: Configuration) -> list[str]:
    """Return a warning about each kind of hook that stops less than its author may think.

    These are the hooks that fail open, those that do so on exit codes, those that judge each event of a
    stream alone, those that only observe, and those whose conditions are never met.
    """
    to_deny = 'to deny such calls, set "on_error": "deny"'
    found = (
        (
            "these hooks fail open (a call passes if they fail)",
            configuration.failing_open("always"),
            to_deny,
        ),
        (
            "these hooks fail open when they exit with a code other than 0 or 2",
            configuration.failing_open("on exit codes"),
            to_deny,
        ),
        (
            "these hooks judge each event of a stream alone (a text split between events passes)",
            configuration.missing_split_text(),
            'to judge it as a whole, set "stream": "window"',
        ),
        (
            "these hooks only observe and stop nothing",
            configuration.observing(),
            'to enforce them, remove "mode": "observe"',
        ),
        (
            "these hooks never run, because their event has no tool, model or operation to meet a condition",
            configuration.never_running(),
            'remove tools, models and operations from their "when"',
        ),
    )
    return [f"{warning}: {', '.join(names)}; {remedy}" for warning, names, remedy in found if names]
