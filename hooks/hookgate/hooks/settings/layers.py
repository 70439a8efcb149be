"""The `hooks` sections of all layers, merged into one configuration.

Everything that is wrong is found here, at load, with the file, the line and the remedy; a running gateway
never meets a malformed hook.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.settings import jsonc
from hookgate.hooks.settings.configs import (
    AnyConfig,
    BuiltinConfig,
    CommandConfig,
    FileConfig,
    GroupConfig,
    OnError,
)
from hookgate.hooks.settings.matching import Literally, Matcher
from hookgate.hooks.settings.places import Place, project_of
from hookgate.hooks.settings.plan import (
    EVENTS,
    GEMINI_LAYERS,
    LAYERS,
    Configuration,
    Group,
    Hook,
    Layer,
    Limits,
    shown_target,
    without_copies,
)
from hookgate.hooks.settings.programs import program_problem
from hookgate.hooks.settings.reading import SettingsFile, nearest, read_settings

_NOT_EVENTS = ("enabled", "disabled", "notifications")  # switches that share the `hooks` object
_SECTIONS = ("hooks", "hooksConfig")
_IGNORED = frozenset({"source", "matcher"})  # Gemini CLI's own bookkeeping
_HOOK: TypeAdapter[AnyConfig] = TypeAdapter(Annotated[AnyConfig, Field(discriminator="type")])

log = logging.getLogger("hookgate.hooks")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What could be read of a set of places, and what could not."""

    configuration: Configuration
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """What is suspicious and keeps nothing from running, such as keys that are not known."""
    ignored: tuple[Problem, ...] = ()
    """What is wrong with a project that is not trusted: it must not keep other settings out of force."""

    @property
    def off(self) -> tuple[Hook, ...]:
        """Hooks that are switched off, or that another layer has as well."""
        return self.configuration.off


def load_settings(files: Iterable[Path]) -> Configuration:
    """Read settings files named one by one, highest precedence first. Raises SettingsError."""
    return load_places([Place(path) for path in files])


def load_places(places: Iterable[Place]) -> Configuration:
    """Read the settings of several layers. Raises SettingsError, which tells all that is wrong.

    Of hooks with equal name and command the first is kept; a hook disabled in any file is off; hooks are off
    altogether when any file says so (`tools.enableHooks`, `hooks.enabled` or `hooksConfig.enabled` false).
    None of that touches the policy layer. Extensions, and projects that are not trusted, speak for their own
    hooks alone: they shadow and switch nothing else, and what is wrong with such a project is only logged.
    """
    loaded = read_places(places)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    if loaded.problems:
        raise SettingsError(loaded.problems)
    for problem in loaded.ignored:
        log.warning("%s (left out; the project is not trusted, so the other settings are in force)", problem)
    return loaded.configuration


def read_places(places: Iterable[Place]) -> Loaded:
    """Read as much as can be read: a malformed hook or group is left out and told among the problems."""
    files: list[tuple[Place, SettingsFile]] = []
    problems: dict[bool, list[Problem]] = {True: [], False: []}
    for place in sorted(places, key=lambda place: LAYERS.index(place.layer)):
        try:
            file = read_settings(place.path, strict=place.layer == "policy", any_kind=place.required)
            files.append((place, file))
        except FileNotFoundError:
            if place.required:
                message = "cannot be read: No such file or directory; check the path"
                problems[place.needs_trust].append(Problem(place.path, message))
        except SettingsError as error:
            problems[place.needs_trust] += error.problems
    configuration = _merged([(place, file, _file_config(file)) for place, file in files])
    for place, file in files:
        problems[place.needs_trust] += file.problems
    warnings = tuple(warning for _, file in files for warning in file.warnings)
    return Loaded(configuration, tuple(problems[False]), warnings, tuple(problems[True]))


Section = tuple[Place, SettingsFile, FileConfig]


def _merged(sections: Sequence[Section]) -> Configuration:
    """One configuration out of files that were read, highest precedence first."""
    read = [group for section in sections for group in _groups(*section)]
    leaves_on = _switches(sections)
    on = [(group, hook) for group in read for hook in group.hooks if leaves_on(hook)]
    # A copy that runs whenever this one would; copies that only overlap are the plan's to tell.
    matchers = {hook: group.matcher.pattern for group, hook in on}
    kept = without_copies(
        matchers,
        lambda hook: (hook.event, hook.name, hook.target, matchers[hook], repr(hook.config.when)),
    )
    groups: dict[str, list[Group]] = {}
    for group in read:
        hooks = tuple(hook for hook in group.hooks if hook in kept)
        if hooks:
            groups.setdefault(hooks[0].event, []).append(Group(hooks, group.sequential, group.matcher))
    return Configuration(
        {event: tuple(each) for event, each in groups.items()},
        _limits(sections),
        _revision(sections),
        tuple(target for place, _, config in sections for target in _targets(place, config)),
        tuple(hook for group in read for hook in group.hooks),
    )


def _targets(place: Place, config: FileConfig) -> list[str]:
    """Where hooks may post to, besides this machine: not for a project or an extension to say."""
    if config.http_targets and place.layer in ("project", "extensions"):
        log.warning(
            "%s: hooksConfig.http_targets: a project has no say in this; put it into the user's settings",
            place.path,
        )
        return []
    return config.http_targets


def _revision(sections: Sequence[Section]) -> str:
    """Twelve hexadecimal digits that stand for these settings, whichever process read them."""
    digest = hashlib.sha256()
    for place, file, _ in sections:
        for text in (place.layer, str(place.path), file.text):
            digest.update(f"{len(text)}:{text}".encode())
    return digest.hexdigest()[:12]


# ---- the switches and defaults of a file


def _file_config(file: SettingsFile) -> FileConfig:
    _check_top_level(file)
    section = file.section("hooksConfig")
    file.check_keys(["hooksConfig"], section, {*FileConfig.model_fields, *_NOT_EVENTS}, "hooksConfig")
    try:
        return FileConfig.model_validate(section)
    except ValidationError as error:
        file.wrong_model(["hooksConfig"], error)
        return FileConfig()


def _check_top_level(file: SettingsFile) -> None:
    """Note keys that were probably meant to be about hooks; the others are Gemini CLI's business."""
    for key in file.settings:
        if key in EVENTS:
            file.warn([key], f"{key!r} does nothing here; did you mean hooks.{key}?")
        elif key not in _SECTIONS and (near := nearest(key, _SECTIONS)):
            file.warn([key], f"{key!r} is not known here and does nothing; did you mean {near}?")


def _limits(sections: Sequence[Section]) -> Limits:
    """Each limit from the highest layer that sets it, and that has a say in what all hooks share."""
    for place, _, config in sections:
        if not place.binds_all and (config.deadline, config.concurrency) != (None, None):
            log.warning(
                "%s: hooksConfig: deadline and concurrency are left out: %s", place.path, _no_say(place)
            )
    configs = [config for place, _, config in sections if place.binds_all]
    deadline = next((config.deadline for config in configs if config.deadline is not None), None)
    concurrency = next((config.concurrency for config in configs if config.concurrency is not None), None)
    return Limits(
        Limits().deadline if deadline is None else deadline / 1000,
        Limits().concurrency if concurrency is None else concurrency,
    )


def _no_say(place: Place) -> str:
    if place.layer == "extensions":
        return "an extension speaks for its own hooks alone"
    return "a project that is not trusted as a whole (--trust-project) speaks for its own hooks alone"


def _switches(sections: Sequence[Section]) -> Callable[[Hook], bool]:
    """Whether the files leave a hook on. Nobody switches a policy's; some files switch their own alone."""
    common = _leaving_on([file for place, file, _ in sections if place.binds_all])
    own = {place.path: _leaving_on([file]) for place, file, _ in sections if not place.binds_all}

    def leaves_on(hook: Hook) -> bool:
        if hook.layer == "policy":
            return True
        return common(hook.name) and (hook.source not in own or own[hook.source](hook.name))

    return leaves_on


def _leaving_on(files: Sequence[SettingsFile]) -> Callable[[str], bool]:
    """Whether these files leave hooks of a name on."""
    on = all(_switched_on(file) for file in files)
    disabled = {name for file in files for name in _disabled(file)}
    return lambda name: on and name not in disabled


def _switched_on(file: SettingsFile) -> bool:
    switches = (("tools", "enableHooks"), ("hooks", "enabled"), ("hooksConfig", "enabled"))
    return all(file.section(section).get(key) is not False for section, key in switches)


def _disabled(file: SettingsFile) -> Iterator[str]:
    for section in ("hooks", "hooksConfig"):
        listed = file.section(section).get("disabled", [])
        if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
            yield from listed
        else:
            file.wrong([section, "disabled"], ": has to be a list of hook names")


# ---- groups and hooks


def _groups(place: Place, file: SettingsFile, defaults: FileConfig) -> Iterator[Group]:
    """The groups of a file; an empty group has no hooks that could run."""
    events = file.settings.get("hooks", {})
    if not isinstance(events, dict):
        file.wrong(["hooks"], ": has to be an object of events")
        return
    for event, groups in events.items():
        where = ["hooks", event]
        if event in _NOT_EVENTS:
            continue
        if event not in EVENTS:
            file.wrong(where, f": there is no such event; use one of {', '.join(EVENTS)}")
        elif not isinstance(groups, list):
            file.wrong(where, ": has to be a list")
        else:
            for number, group in enumerate(groups):
                read = _group(place, file, [*where, number], group, defaults)
                if read is not None:
                    yield read


def _group(
    place: Place, file: SettingsFile, where: list[str | int], group: Any, defaults: FileConfig
) -> Group | None:
    try:
        config = GroupConfig.model_validate(group)
    except ValidationError as error:
        file.wrong_model(where, error)
        return None
    event = str(where[1])
    file.check_keys(where, group, GroupConfig.model_fields, f"hooks.{event}")
    hooks = []
    for number, each in enumerate(config.hooks):
        try:
            read = _HOOK.validate_python(each)
        except ValidationError as error:
            # The hook's type comes first in pydantic's path, and within a command its form.
            file.wrong_model([*where, "hooks", number], error, skip=0 if _typed(error) else None)
            continue
        root = _root(place)
        read = _hydrated(read, place, root)
        written = read.on_error or defaults.on_error
        on_error = written or _on_error_of(place.layer, read)
        on_exit_code = written or ("deny" if place.layer == "policy" else "allow")
        name = read.name or shown_target(read)
        _check_hook(file, [*where, "hooks", number], f"hooks.{event}: the hook {name!r}", read, root)
        line = jsonc.line_of(file.text, [*where, "hooks", number])
        hooks.append(
            Hook(
                name,
                read,
                root,
                place.path,
                event,
                place.layer,
                on_error,
                line,
                on_exit_code,
                place.needs_trust,
            )
        )
    return Group(tuple(hooks), config.sequential, _matcher(file, where, event, config.matcher))


def _on_error_of(layer: Layer, config: AnyConfig) -> OnError:
    """Return what a failure means where the file does not say.

    Files that an operator names fail closed, and so do policies; in Gemini CLI's own layers its documents
    decide, for which a failed hook is a warning.
    """
    return "allow" if layer in GEMINI_LAYERS and not isinstance(config, BuiltinConfig) else "deny"


def _typed(error: ValidationError) -> bool:
    return error.errors(include_url=False)[0]["loc"][:1] != ()


def _matcher(file: SettingsFile, where: list[str | int], event: str, pattern: str | None) -> Matcher:
    try:
        matcher = Matcher(event, pattern)
    except re.error as error:
        literal = re.escape(str(pattern))
        remedy = f": {pattern!r} is no regular expression: {error}; to match it word for word: {literal!r}"
        file.wrong([*where, "matcher"], remedy)
        return Literally(str(pattern))
    if hint := matcher.hint():
        told = "is only a part of tool names, and matches none of Gemini CLI's"
        message = f"hooks.{event}: the matcher {pattern!r} {told}; {hint!r} was probably meant"
        file.warnings.append(Problem(file.path, message, jsonc.line_of(file.text, [*where, "matcher"])))
    return matcher


def _root(place: Place) -> Path:
    return place.root or project_of(place.path)


def _hydrated(config: AnyConfig, place: Place, root: Path) -> AnyConfig:
    """An extension's hook with `${extensionPath}` and its like filled in, as Gemini CLI does."""
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


def _check_hook(file: SettingsFile, place: jsonc.Path, where: str, config: AnyConfig, root: Path) -> None:
    """Note what a hook says in vain, and a program of it that cannot be started."""
    known = {*type(config).model_fields, *_IGNORED}
    file.check_keys(place, config.model_extra or {}, known, where)
    if isinstance(config, CommandConfig) and (wrong := program_problem(config, root)):
        file.warn([*place, "command"], f"{where}: {wrong}")
