"""Settings files: the `hooks` section of Gemini CLI's settings.json, read into the hooks to run.

Everything that is wrong is found here, at load, with the file, the place and the remedy; a running gateway
never meets a malformed hook.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hookgate.hooks.errors import SettingsError
from hookgate.translator import BodyError
from hookgate.translator.strictjson import object_of_distinct_keys

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "PreCompress",
    "Notification",
)
"""The eleven events of the hook contract."""

DEFAULT_TIMEOUT_MS = 60_000
"""The documents' default, in milliseconds."""

_NOT_EVENTS = ("enabled", "disabled", "notifications")  # switches that share the `hooks` object


_IGNORED = frozenset({"source", "matcher"})  # Gemini CLI's own bookkeeping

log = logging.getLogger("hookgate.hooks")


class _HookConfig(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str | None = None
    description: str | None = None
    timeout: Annotated[float, Field(gt=0)] = DEFAULT_TIMEOUT_MS
    env: dict[str, str] = {}
    on_error: Literal["allow", "deny"] = "allow"
    view: Literal["text", "parts", "raw"] = "text"


class CommandConfig(_HookConfig):
    """A program per event: JSON on stdin, verdict by stdout and exit code. `timeout` is in milliseconds."""

    type: Literal["command"]
    command: Annotated[str, Field(min_length=1)]


class RuntimeConfig(_HookConfig):
    """A Python callable in the gateway's process: `package.module:function` or `./file.py:function`."""

    type: Literal["runtime"]
    action: Annotated[str, Field(pattern=r"^[^:]+:[A-Za-z_]\w*$")]


class _GroupConfig(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    sequential: bool = False
    hooks: list[Annotated[CommandConfig | RuntimeConfig, Field(discriminator="type")]]


_GROUPS = TypeAdapter(list[_GroupConfig])


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One configured hook. `root` is the project folder it runs in, `source` the file it came from."""

    name: str
    config: CommandConfig | RuntimeConfig
    root: Path
    source: Path

    @property
    def timeout(self) -> float:
        """Seconds."""
        return self.config.timeout / 1000


@dataclass(frozen=True, slots=True)
class Group:
    """Hooks that run side by side, or in turn when `sequential`."""

    hooks: tuple[Hook, ...]
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """The groups to run per event, in order: files as given, groups and hooks as declared."""

    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)

    def for_event(self, event: str) -> tuple[Group, ...]:
        return self.groups.get(event, ())


def load_settings(files: Iterable[Path]) -> Configuration:
    """Read settings files, highest precedence first. Raises SettingsError.

    Of hooks with equal name and command (or action) the first is kept; a hook disabled in any file is off;
    hooks are off altogether when any file says so (`tools.enableHooks`, `hooks.enabled` or
    `hooksConfig.enabled` false).
    """
    layers = [(path, _read(path)) for path in files]
    if not all(_switched_on(settings) for _, settings in layers):
        return Configuration()
    disabled = {name for path, settings in layers for name in _disabled(path, settings)}
    groups: dict[str, list[Group]] = {}
    known: set[tuple[str, str, str]] = set()
    for path, settings in layers:
        for event, configs in _events(path, settings):
            for config in configs:
                hooks = [_hook(path, event, each) for each in config.hooks]
                kept = [hook for hook in hooks if hook.name not in disabled and _first(known, event, hook)]
                if kept:
                    groups.setdefault(event, []).append(Group(tuple(kept), config.sequential))
    return Configuration({event: tuple(found) for event, found in groups.items()})


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows editors write a byte order mark
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: is not UTF-8; save it as UTF-8") from None
    try:
        settings = json.loads(text, object_pairs_hook=object_of_distinct_keys)
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise SettingsError(f"{place}: is not valid JSON: {error.msg}") from None
    except BodyError as error:
        raise SettingsError(f"{path}: {error.message}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise SettingsError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(settings, dict):
        raise SettingsError(f'{path}: has to hold an object such as {{"hooks": {{…}}}}')
    return settings


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _switched_on(settings: Mapping[str, Any]) -> bool:
    switches = (("tools", "enableHooks"), ("hooks", "enabled"), ("hooksConfig", "enabled"))
    return all(_section(settings, section).get(key) is not False for section, key in switches)


def _disabled(path: Path, settings: Mapping[str, Any]) -> list[str]:
    names: list[str] = []
    for section in ("hooks", "hooksConfig"):
        listed = _section(settings, section).get("disabled", [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise SettingsError(f"{path}: {section}.disabled: has to be a list of hook names")
        names += listed
    return names


def _events(path: Path, settings: Mapping[str, Any]) -> Iterable[tuple[str, list[_GroupConfig]]]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise SettingsError(f"{path}: hooks: has to be an object of events")
    for event, groups in hooks.items():
        if event in _NOT_EVENTS:
            continue
        if event not in EVENTS:
            raise SettingsError(
                f"{path}: hooks.{event}: there is no such event; use one of {', '.join(EVENTS)}"
            )
        try:
            yield event, _GROUPS.validate_python(groups)
        except ValidationError as error:
            raise SettingsError(_describe(path, event, error)) from None


def _describe(path: Path, event: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    # [group]["hooks"][hook] and then the hook's type, which pydantic puts among the keys.
    keys = first["loc"][:3] + first["loc"][4:]
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    remedy = _REMEDIES.get(first["type"], f": {first['msg']}").format(**first.get("ctx", {}))
    return f"{path}: hooks.{event}{place}{remedy}"


_REMEDIES = {
    "missing": ": is missing",
    "union_tag_not_found": ".type: is missing; use 'command' or 'runtime'",
    "union_tag_invalid": ".type: there is no hook type {tag!r}; use 'command' or 'runtime'",
    "model_type": ": has to be an object",
    "model_attributes_type": ": has to be an object",
    "dict_type": ": has to be an object",
    "list_type": ": has to be a list",
    "bool_type": ": has to be true or false",
    "string_type": ": has to be a string",
    "string_too_short": ": is empty",
    "string_pattern_mismatch": ": has to be package.module:function or ./file.py:function",
    "float_type": ": has to be a number of milliseconds, without quotes",
    "greater_than": ": has to be greater than 0 milliseconds",
    "literal_error": ": has to be {expected}",
}
"""What to say of each thing that can be wrong with a hook; pydantic's own words are for programmers."""


def _hook(path: Path, event: str, config: CommandConfig | RuntimeConfig) -> Hook:
    for key in sorted((config.model_extra or {}).keys() - _IGNORED):
        # Gemini CLI may know it, so it is no error; but an "onError" for on_error must not pass unseen.
        known = ", ".join(type(config).model_fields)
        log.warning(
            "%s: hooks.%s: %r is not known here and does nothing; known are %s", path, event, key, known
        )
    return Hook(config.name or _target(config), config, _project_root(path), path)


def _target(config: CommandConfig | RuntimeConfig) -> str:
    return config.command if isinstance(config, CommandConfig) else config.action


def _first(known: set[tuple[str, str, str]], event: str, hook: Hook) -> bool:
    key = (event, hook.name, _target(hook.config))
    if key in known:
        return False
    known.add(key)
    return True


def _project_root(path: Path) -> Path:
    """Where a file's hooks run: the folder of the file, or the project around its `.gemini` folder.

    TerminaI, from whose documents the hook contract also comes, keeps its settings in `.terminai`.
    """
    folder = path.resolve().parent
    return folder.parent if folder.name in (".gemini", ".terminai") else folder
