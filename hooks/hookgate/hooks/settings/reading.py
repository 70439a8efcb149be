"""Reads the settings of one layer, and checks all of it.

Each layer is read apart from the others, within limits. Whatever it contains, its reading is a value: the
hooks that can be used, and the problems with file, line and remedy. So a running gateway never encounters a
malformed hook, and what one layer contains does not affect the reading of another.
"""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from hookgate.hooks.errors import Problem, SettingsError, is_exhaustion
from hookgate.hooks.settings import claude_names
from hookgate.hooks.settings.antigravity import is_antigravity, read_groups
from hookgate.hooks.settings.commands import (
    command_problem,
    search_problem,
    unset_in_command,
    unset_variables,
)
from hookgate.hooks.settings.configs import (
    AnyConfig,
    BuiltinConfig,
    CommandConfig,
    FileConfig,
    GroupConfig,
    OnError,
    RegoConfig,
    When,
)
from hookgate.hooks.settings.configuration import (
    Group,
    Hook,
    LinearMatcher,
    Literally,
    Matcher,
    display_target,
)
from hookgate.hooks.settings.event_names import EVENTS
from hookgate.hooks.settings.files import (
    SettingsFile,
    closest_name,
    open_at_once,
    open_without_links,
    parse_settings,
    read_settings,
)
from hookgate.hooks.settings.matcher_advice import (
    condition_mistakes,
    find_matcher_mistake,
    option_mistakes,
    wildcards_as_regex,
)
from hookgate.hooks.settings.positions import ValuePath
from hookgate.hooks.settings.sources import GEMINI_LAYERS, Layer, SettingsSource, project_of

log = logging.getLogger("hookgate.hooks")

NOT_EVENTS = ("enabled", "disabled", "notifications")
"""The keys of the `hooks` object that are not events."""

_SECTIONS = ("hooks", "hooksConfig")
_IGNORED = frozenset({"source", "matcher"})  # Gemini CLI's own bookkeeping
_CONDITIONS = tuple(field.alias or name for name, field in When.model_fields.items())
_GROUP_EXAMPLE = '{"hooks": [{"type": "command", "command": "./guard.sh"}]}'
_GROUP_MISTAKES = {
    kind: f"{problem}; write hooks in a list: {_GROUP_EXAMPLE}".replace("{", "{{").replace("}", "}}")
    for kind, problem in (("missing", "is missing"), ("list_type", "must be a list"))
}
_TOLERATED = frozenset(
    {
        "missing",
        "list_type",
        "model_type",
        "model_attributes_type",
        "union_tag_not_found",
        "union_tag_invalid",
    }
)
"""pydantic's types of errors in a hook or group that Gemini CLI leaves out, such as one without a type."""
_SHORT_TIMEOUT_MS = 50
"""A shorter timeout probably is a number of seconds, as in Claude Code."""
_HOOK: TypeAdapter[AnyConfig] = TypeAdapter(Annotated[AnyConfig, Field(discriminator="type")])

_DEFAULTS = FileConfig()
UNTRUSTED_BYTES = 64 * 1024
"""The maximum size of a settings file of a project that is not trusted."""

_UNTRUSTED_VALUES = 1000
"""The maximum number of values in its hook settings. The check of each may take a millisecond."""


@dataclass(frozen=True, slots=True)
class LayerReading:
    """What one layer's settings contain: its hooks, and its switches and defaults."""

    source: SettingsSource
    text: str = ""
    groups: tuple[Group, ...] = ()
    """All groups, including those without hooks."""
    config: FileConfig = _DEFAULTS
    enabled: bool = True
    """Whether the layer leaves hooks on."""
    disabled: frozenset[str] = frozenset()
    """The names of the hooks that it switches off."""
    has_effect: bool = True
    """Whether the layer has hooks or switches."""
    problems: tuple[Problem, ...] = ()
    """Why the layer cannot be used, or, if it is `contained`, why some of its hooks are left out."""
    warnings: tuple[Problem, ...] = ()
    """Suspicious settings that do not prevent a start, such as unknown keys."""
    unusable: bool = False
    """Whether the layer cannot be used, rather than some of its hooks only."""
    retry: bool = False
    """Whether a resource was missing, so that the next reading may succeed although nothing has changed."""


def read_layer(source: SettingsSource) -> LayerReading | None:
    """Read and check the settings of a source. Returns None for a missing file that is not required.

    No exception leaves this function, whatever the layer contains, except if this machine has run out of a
    resource while a layer was read that affects all hooks.
    """
    try:
        return _read(source)
    except SettingsError as error:
        return LayerReading(source, problems=error.problems, unusable=True)
    except FileNotFoundError:
        if not source.required:
            return None
        message = "cannot be read: No such file or directory; check the path"
        return LayerReading(source, problems=(Problem(source.path, message),), unusable=True)
    except Exception as error:
        is_exhausted = is_exhaustion(error)
        if is_exhausted and source.binds_all:
            raise
        log.debug("%s cannot be read", source.path, exc_info=error)
        why = "out of resources" if is_exhausted else "please report this"
        problem = Problem(source.path, f"cannot be used: {type(error).__name__} while it was read; {why}")
        return LayerReading(source, problems=(problem,), unusable=True, retry=is_exhausted)


def _read(source: SettingsSource) -> LayerReading:
    """Like `read_layer`, but raise SettingsError, FileNotFoundError and unexpected errors."""
    str(source.path).encode()  # it is shown, and part of the revision
    file = _parse(source)
    if source.needs_trust:
        _check_size(file)
    config = _file_config(source, file)
    groups = tuple(_groups(source, file, config))
    disabled = frozenset(_disabled(file))
    has_effect = (
        any(group.hooks for group in groups)
        or any(name in NOT_EVENTS for name in file.section("hooks"))
        or bool(file.section("hooksConfig"))
        or "enableHooks" in file.section("tools")
    )
    return LayerReading(
        source,
        file.text,
        groups,
        config,
        _hooks_enabled(file),
        disabled,
        has_effect or bool(file.problems or file.warnings),
        tuple(file.problems),
        tuple(file.warnings),
        unusable=bool(file.problems) and source.binds_all,
    )


def _parse(source: SettingsSource) -> SettingsFile:
    strict = source.layer == "policy"
    if source.revision is not None:
        return parse_settings(source.path, source.revision.text, strict=strict)
    if source.needs_trust:
        opener = partial(open_without_links, source.root or source.path.parent)
        file = read_settings(source.path, strict=strict, opener=opener, max_bytes=UNTRUSTED_BYTES)
    else:
        file = read_settings(source.path, strict=strict, opener=None if source.required else open_at_once)
    file.tolerant = source.layer in GEMINI_LAYERS
    return file


def _check_size(file: SettingsFile) -> None:
    """Check the number of values in the hook settings. Raises SettingsError."""
    values: list[Any] = [file.section(section) for section in _SECTIONS]
    for count, value in enumerate(values):  # which grows in the loop
        if count > _UNTRUSTED_VALUES:
            message = (
                f"contains more than {_UNTRUSTED_VALUES} values in its hook settings; remove some of them"
            )
            raise SettingsError([Problem(file.path, f"{message}, or use --trust-project")])
        if isinstance(value, dict):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)


# ---- the switches and defaults of a file


def _file_config(place: SettingsSource, file: SettingsFile) -> FileConfig:
    if not _is_antigravity(place, file):
        _check_top_level(place, file)
    section = file.section("hooksConfig")
    file.check_keys(["hooksConfig"], section, {*FileConfig.model_fields, *NOT_EVENTS}, "hooksConfig")
    try:
        config = FileConfig.model_validate(section)
    except ValidationError as error:
        file.add_validation_errors(["hooksConfig"], error)
        return FileConfig()
    ignored: dict[str, Any] = {}
    if config.http_targets and place.layer in ("project", "extensions"):
        remedy = "move it to the user's settings"
        file.advise(
            ["hooksConfig", "http_targets"],
            f"hooksConfig.http_targets: ignored in a project or extension; {remedy}",
        )
        ignored["http_targets"] = []
    limits = dict.fromkeys(("deadline", "concurrency", "programs"))
    if not place.binds_all and any(getattr(config, name) is not None for name in limits):
        only = "affects its own hooks only"
        whose = (
            "a project that is not trusted as a whole (--trust-project)"
            if place.needs_trust
            else "an extension"
        )
        what = "deadline, concurrency and programs"
        file.advise(["hooksConfig"], f"hooksConfig: {what} are ignored: {whose} {only}")
        ignored |= limits
    return config.model_copy(update=ignored)


def _is_antigravity(place: SettingsSource, file: SettingsFile) -> bool:
    """Return whether a file that an operator names is a `hooks.json` of Antigravity."""
    return place.layer not in GEMINI_LAYERS and is_antigravity(file.settings)


def _check_top_level(place: SettingsSource, file: SettingsFile) -> None:
    """Check for top-level keys that resemble those for hooks. Gemini CLI defines the other keys.

    An event, or a misspelled `hooks` in a file that an operator names, is a problem: the hooks below it would
    never run, and calls that they should stop would pass.
    """
    for key in file.settings:
        if key in EVENTS:
            file.leave_out([key], f": has no effect here; did you mean hooks.{key}?")
        elif key not in _SECTIONS and (near := closest_name(key, _SECTIONS)):
            message = f"{key!r} is not known here and has no effect; did you mean {near}?"
            if near == "hooks" and place.layer not in GEMINI_LAYERS:
                file.problems.append(Problem(file.path, message, file.positions.line([key])))
            else:
                file.warn([key], message)


def _hooks_enabled(file: SettingsFile) -> bool:
    switches = (("tools", "enableHooks"), ("hooks", "enabled"), ("hooksConfig", "enabled"))
    return all(file.section(section).get(key) is not False for section, key in switches)


def _disabled(file: SettingsFile) -> Iterator[str]:
    for section in ("hooks", "hooksConfig"):
        names = file.section(section).get("disabled", [])
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            yield from names
        else:
            file.add_problem([section, "disabled"], ": must be a list of hook names")


# ---- groups and hooks


def _groups(place: SettingsSource, file: SettingsFile, defaults: FileConfig) -> Iterator[Group]:
    """Yield the groups of a file, including those without hooks."""
    if _is_antigravity(place, file):
        for named in read_groups(file):
            parsed = _group(place, file, named.place, named.event, named.group, defaults)
            if parsed is not None:
                yield parsed
        return
    events = file.settings.get("hooks", {})
    if not isinstance(events, dict):
        file.add_problem(
            ["hooks"], f': must be an object of events such as {{"BeforeModel": [{_GROUP_EXAMPLE}]}}'
        )
        return
    for event, groups in events.items():
        where = ["hooks", event]
        if event in NOT_EVENTS:
            continue
        if event not in EVENTS:
            near = claude_names.EVENTS.get(event) or closest_name(event, EVENTS)
            remedy = f"did you mean {near}?" if near else f"use one of {', '.join(EVENTS)}"
            file.leave_out(where, f": there is no such event; {remedy}")
        elif not isinstance(groups, list):
            file.leave_out(where, f": must be a list of groups such as [{_GROUP_EXAMPLE}]")
        else:
            for number, group in enumerate(groups):
                parsed = _group(place, file, [*where, number], event, group, defaults)
                if parsed is not None:
                    yield parsed


def _group(  # noqa: PLR0913, PLR0917  # where it is, what it is, and what applies to it
    place: SettingsSource, file: SettingsFile, where: ValuePath, event: str, group: Any, defaults: FileConfig
) -> Group | None:
    try:
        config = GroupConfig.model_validate(group)
    except ValidationError as error:
        file.add_validation_errors(where, error, texts=_GROUP_MISTAKES, tolerated=_TOLERATED)
        return None
    file.check_keys(where, group, GroupConfig.model_fields, f"hooks.{event}")
    hooks = []
    for number, value in enumerate(config.hooks):
        try:
            hook = _HOOK.validate_python(value)
        except ValidationError as error:
            # pydantic's path begins with the hook's type if the type is known.
            has_type = error.errors(include_url=False)[0]["loc"][:1] != ()
            skip = 0 if has_type else None
            file.add_validation_errors(
                [*where, "hooks", number], error, skip, known=_CONDITIONS, tolerated=_TOLERATED
            )
            continue
        # Antigravity runs hooks in the folder of their file.
        in_folder = isinstance(hook, CommandConfig) and hook.dialect and _is_antigravity(place, file)
        root = place.path.parent if in_folder else place.root or project_of(place.path)
        hook = _expand_variables(hook, place, root)
        configured = hook.on_error or defaults.on_error
        on_error = configured or _default_on_error(place.layer, hook)
        on_exit_code = configured or ("deny" if place.layer == "policy" else "allow")
        name = hook.name or display_target(hook)
        _check_hook(file, [*where, "hooks", number], f"hooks.{event}: the hook {name!r}", hook, root)
        hooks.append(
            Hook(
                name,
                hook,
                root,
                place.path,
                event,
                place.layer,
                on_error,
                file.positions.line([*where, "hooks", number]),
                on_exit_code,
                place.needs_trust,
            )
        )
    return Group(tuple(hooks), config.sequential, _matcher(place, file, where, event, config.matcher))


def _default_on_error(layer: Layer, config: AnyConfig) -> OnError:
    """Return the default of `on_error`.

    Hooks of files that an operator names fail closed, and so do built-in policies and rules in Rego. Other
    hooks of Gemini CLI's own layers fail open, since Gemini CLI documents a failed hook as a warning.
    """
    is_own = isinstance(config, BuiltinConfig | RegoConfig)
    return "allow" if layer in GEMINI_LAYERS and not is_own else "deny"


def _matcher(
    place: SettingsSource, file: SettingsFile, where: ValuePath, event: str, pattern: str | None
) -> Matcher:
    try:
        matcher = (LinearMatcher if place.needs_trust else Matcher)(event, pattern)
    except re.error as error:
        problem = f": {pattern!r} is not a regular expression: {error}"
        if meant := wildcards_as_regex(str(pattern)):
            remedy = f"did you mean {meant!r}?"
        else:
            remedy = f"to match it literally, use {re.escape(str(pattern))!r}"
        if file.tolerant:
            compared = f"{problem}; it is compared as text, as in Gemini CLI, and probably matches no tool"
            name = f"hooks.{event}: the matcher"
            file.advise([*where, "matcher"], f"{name}{compared}; {remedy}", breaks_hook=True)
        else:
            file.add_problem([*where, "matcher"], f"{problem}; {remedy}")
        return Literally(str(pattern))
    if mistake := find_matcher_mistake(event, matcher):
        message = f"hooks.{event}: the matcher {pattern!r} {mistake.message}"
        # Never a problem, not even in policy files: the tools of MCP servers are not known here.
        file.advise([*where, "matcher"], message, breaks_hook=mistake.breaks_hook)
    return matcher


def _expand_variables(config: AnyConfig, place: SettingsSource, root: Path) -> AnyConfig:
    """Expand `${extensionPath}` and similar variables in an extension's hook, as Gemini CLI does."""
    if place.layer != "extensions":
        return config
    values = {
        "extensionPath": str(place.path.parent.parent),
        "workspacePath": str(root),
        "/": "/",
        "pathSeparator": "/",
    }
    text = re.sub(
        r"\$\{(extensionPath|workspacePath|/|pathSeparator)\}",
        lambda m: json.dumps(values[m[1]])[1:-1],
        config.model_dump_json(exclude_unset=True),
    )
    return _HOOK.validate_json(text)


def _check_hook(file: SettingsFile, place: ValuePath, where: str, config: AnyConfig, root: Path) -> None:
    """Warn about unknown keys of a hook, a program that cannot be started, and a timeout in seconds.

    What is only advice is never a problem, not even in policy files: another process may have another PATH,
    a variable may be optional, a server's names may have dots and bars, and a fast hook may have a short
    timeout.
    """
    known = {*type(config).model_fields, *_IGNORED}
    file.check_keys(place, config.model_extra or {}, known, where)
    if isinstance(config, CommandConfig):
        if problem := command_problem(config, root):
            file.warn([*place, "command"], f"{where}: {problem}", breaks_hook=True)
        elif problem := search_problem(config, root):
            file.advise([*place, "command"], f"{where}: {problem}", breaks_hook=True)
        for key, name in unset_variables(config):
            message = f"{where}: env.{key}: ${name} is not set in hookgate's environment, so it is empty"
            file.advise([*place, "env", key], message)
        for name in unset_in_command(config):
            message = f"{where}: command: ${name} is not set in the hook's environment, so it is empty"
            file.advise([*place, "command"], f'{message}; set it in "env"')
    for condition, mistake in condition_mistakes(config.when):
        file.advise([*place, "when", condition], f"{where}: when.{condition}: {mistake}")
    for option, mistake in option_mistakes(config) if isinstance(config, BuiltinConfig) else ():
        steps = [int(step) if step.isdigit() else step for step in option.split(".")]
        file.advise([*place, "options", *steps], f"{where}: options.{option}: {mistake}")
    if config.timeout < _SHORT_TIMEOUT_MS and not isinstance(config, BuiltinConfig):
        seconds = f"{config.timeout * 1000:g}"
        message = f"{where}: timeout: {config.timeout:g} is in milliseconds; for seconds, write {seconds}"
        file.advise([*place, "timeout"], message)
