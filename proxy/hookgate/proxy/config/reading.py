"""The effective configuration: flags override the environment, which overrides the file and the defaults."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from hookgate.hooks.errors import describe_mistake
from hookgate.hooks.settings import SettingsSource, project_sources
from hookgate.proxy.config.catalogue import (
    NAMED,
    SETTINGS,
    Setting,
    named_table,
    unknown_setting_remedy,
)
from hookgate.proxy.config.models import Config, HookSettings
from hookgate.proxy.config.sources import (
    ConfigError,
    GivenValue,
    find_file,
    read_environment,
    read_file,
    read_flags,
)
from hookgate.proxy.config.values import host_and_port, https_url, is_loopback, masked


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """The effective configuration, and the source of each setting that is not a default."""

    config: Config
    places: Mapping[str, str]
    """The places of settings by their names. Tables in a list of tables are `alerts.rules[0]` and so on."""
    file: Path | None

    def place_of(self, name: str) -> str:
        """Return the place of a setting, or of a table in a list, which a text begins with."""
        found = re.match(r"([\w.]+)(\[\d+\])?", name)
        table, setting = (found[0], found[1]) if found else ("", "")
        return self.places.get(table) or self.places.get(setting, "the configuration")


def read_config(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> EffectiveConfig:
    """Read all sources. `flags` are the parsed flags of a command. Raises ConfigError with all problems."""
    problems: list[str] = []
    file = find_file(flags.get("config"), environ)
    sources = read_file(file, problems) if file else {}
    sources |= read_environment(environ, problems)
    sources |= read_flags(flags)
    values: dict[str, dict[str, Any]] = {}
    for name, source in sources.items():
        setting = SETTINGS.get(name) or named_table(*name.split(".", 1))
        try:
            values.setdefault(setting.section, {})[setting.key] = _validated(setting, source)
        except ValidationError as error:
            problems += _problems(setting, source, error)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:  # settings that are valid alone but not together
        problems += [message.partition(": ")[2] for message in describe_errors(error)]
        raise ConfigError(problems) from None
    places = {name: source.place for name, source in sources.items()}
    for name, source in sources.items():
        places |= {
            f"{name}{position}": place for position, place in source.places.items() if "." not in position
        }
    effective = EffectiveConfig(config, places, file)
    if problems:
        raise ConfigError(problems, effective)
    return effective


def _problems(setting: Setting, source: GivenValue, error: ValidationError) -> list[str]:
    """Return a message for each error of a setting, with its place, and the remedy for an unknown name."""
    details = error.errors(include_url=False, include_input=False)
    problems = []
    for detail, message in zip(details, describe_errors(error), strict=True):
        shown = message
        if setting.item is not None and detail["type"] == "extra_forbidden":
            names = [f"{setting.name}.{each}" for each in setting.item.model_fields]
            remedy = unknown_setting_remedy(f"{setting.name}.{detail['loc'][-1]}", names)
            shown = f"{message.partition(': ')[0]}: {remedy}"
        elif setting.item is not None and not detail["loc"]:
            shown = f": must be a list of tables; write [[{setting.name}]] and its keys below"
        problems.append(f"{source.place_of(message)}: {setting.name}{shown}")
    return problems


def conflicts(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each setting with which no gateway starts, because of others, and the reason.

    Commands that do not start a gateway accept them.
    """
    clients, address, upstream = config.clients, config.listen.address, config.upstream
    is_open = clients.unknown_keys == "allow" and not is_loopback(host_and_port(address)[0])
    if is_open and not clients.open:
        yield (
            "listen.address",
            f"listen.address: other machines can reach {address}, and calls are accepted without a key that "
            'the gateway knows; set clients.unknown_keys = "refuse", or clients.open = true (--open) if '
            "everybody who can connect may make calls",
        )
    if config.admin.address == address and host_and_port(address)[1] != 0:
        yield (
            "admin.address" if "address" in config.admin.model_fields_set else "listen.address",
            f"listen.address and admin.address are both {address}; choose another with --admin",
        )
    own = (upstream.gemini_key, upstream.gemini_key_file, upstream.vertex_key, upstream.vertex_key_file)
    if clients.issued_keys and not any(own) and not config.credentials:
        yield (
            "clients.issued_keys",
            "clients.issued_keys: issued keys require the gateway's own API key; name its file in "
            "upstream.gemini_key_file, or describe it in [credentials.NAME]",
        )
    if config.credentials and not clients.issued_keys:
        name = f"credentials.{next(iter(config.credentials))}"
        yield (
            name,
            f"{name}: credentials are only used for calls with issued keys; set clients.issued_keys to true, "
            "or remove the table",
        )
    if config.exports and not config.audit.enabled:
        name = f"exports.{next(iter(config.exports))}"
        yield (
            name,
            f"{name}: there are no records to send, because audit.enabled is false; set that to true, or "
            "remove the table",
        )
    approvals, known = config.approvals, {receiver.name for receiver in config.alerts.receivers}
    for key, names in (
        ("receivers", approvals.receivers),
        ("people", [each.receiver for each in approvals.people]),
    ):
        if unknown := next((name for name in names if name not in known), None):
            yield (
                f"approvals.{key}",
                f"approvals.{key}: there is no receiver {unknown}; describe it in [[alerts.receivers]]",
            )
    if approvals.people and not config.approvals_url:
        yield (
            "approvals.people",
            "approvals.people: their links need the URL of the admin listener; set approvals.url",
        )
    if config.tokens.issuer:
        yield from (("tokens.issuer", f"tokens.issuer: {problem}") for problem in _token_problems(config))
    if config.sign_in.issuer:
        yield from (("sign_in.issuer", f"sign_in.issuer: {problem}") for problem in _sign_in_problems(config))


def settings_warnings(effective: EffectiveConfig) -> list[str]:
    """Return a warning for each setting that has no effect because of others, or probably an unintended one.

    A gateway starts in spite of them. A setting that has its default causes no warning.
    """
    places = effective.places
    return [
        f"{places[name]}: {name}: {why}"
        for name, why in _doubtful_settings(effective.config)
        if name in places and not _is_default(effective.config, name)
    ]


def _doubtful_settings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each setting that would be doubtful if it was set, and the reason with a remedy."""
    if not config.audit.enabled:
        for key in ("content", "jsonl"):
            yield (
                f"audit.{key}",
                "has no effect, because audit.enabled is false; set that to true, or remove this",
            )
        yield (
            "alerts.rules",
            "have no effect, because audit.enabled is false; set that to true, or remove them",
        )
    if config.alerts.rules and not config.alerts.receivers:
        yield "alerts.rules", "nobody is told: describe receivers in [[alerts.receivers]]"
    if not (config.keys or config.clients.issued_keys):
        yield (
            "clients.unknown_keys",
            "every call is refused, because the gateway knows no keys; name keys in [keys.NAME], or set "
            "clients.issued_keys to true",
        )
    if config.routes.files != "judge":
        for key in ("file_types", "file_bytes"):
            yield f"routes.{key}", 'has no effect without routes.files = "judge"; set that, or remove this'
    for key in type(config.approvals).model_fields if not config.approvals.are_enabled else ():
        yield (
            f"approvals.{key}",
            'has no effect without approvals.mode; set it to "ticket" or "hold", or remove this',
        )
    for section in ("tokens", "sign_in"):
        settings = getattr(config, section)
        for key in type(settings).model_fields if settings.issuer is None else ():
            yield f"{section}.{key}", f"has no effect without {section}.issuer; set that, or remove this"


def _is_default(config: Config, name: str) -> bool:
    section, key = name.split(".")
    return bool(getattr(getattr(config, section), key) == SETTINGS[name].field.default)


def _token_problems(config: Config) -> Iterator[str]:
    tokens = config.tokens
    if not config.clients.issued_keys:
        yield "tokens need clients.issued_keys; set it to true"
    if not tokens.audience:
        yield "tokens need tokens.audience; name the audience of your tokens"
    if tokens.jwks_url and tokens.jwks_file:
        yield "tokens.jwks_url and tokens.jwks_file are both set; remove one"
    if not (tokens.jwks_url or tokens.jwks_file):
        try:
            https_url(tokens.issuer or "")
        except ValueError:
            yield "must be an https:// URL, to find its keys; or set tokens.jwks_url or tokens.jwks_file"


def _sign_in_problems(config: Config) -> Iterator[str]:
    sign_in = config.sign_in
    if not sign_in.client_id:
        yield "sign-in needs sign_in.client_id; register the panel at the provider, which gives it an ID"
    if not sign_in.url:
        yield "sign-in needs sign_in.url, the panel's URL in the browsers of its users"
    if not (sign_in.viewers or sign_in.auditors or sign_in.admins):
        yield "nobody has a role; set sign_in.viewers, sign_in.auditors or sign_in.admins"
    if config.admin.address is None:
        yield 'sign-in needs the admin listener; admin.address is "off"'


def _validated(setting: Setting, source: GivenValue) -> Any:
    kind: Any = Annotated[setting.field.annotation, setting.field]
    adapter = TypeAdapter(kind)
    if source.is_text:
        return adapter.validate_python(source.value)
    # Values of the file have types, so they are validated strictly: neither "10" nor true is a number.
    return adapter.validate_json(json.dumps(source.value, default=str), strict=True)


def describe_errors(error: ValidationError) -> list[str]:
    """Return a message for each error, which begins with the position in the list or table."""
    messages = []
    for detail in error.errors(include_url=False, include_input=False):
        position = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])
        messages.append(f"{position}: {describe_mistake(detail, _MISTAKES)}")
    return messages


_MISTAKES = {
    "string_type": "must be a string in quotes",
    "path_type": "must be a path in quotes",
    "tuple_type": "must be a list in brackets",
    "bool_type": "must be true or false, without quotes",
    "int_from_float": "must be a whole number",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The settings files of hooks. A project adds its own, the user's and the system's settings."""

    policy: tuple[Path, ...] = ()
    hooks: tuple[Path, ...] = ()
    project: Path | None = None
    state: Path = Path()
    trust_project: bool = False
    """Whether the project is trusted, so that all of its hooks and switches apply."""
    added: Callable[[], Sequence[SettingsSource]] = tuple
    """Returns sources above all others, such as the policy in a database."""

    def places(self) -> list[SettingsSource]:
        """Return the files to read. They are searched at each call: extensions may be installed or
        removed."""
        named = [
            *self.added(),
            *(SettingsSource(path, "policy") for path in self.policy),
            *(SettingsSource(path) for path in self.hooks),
        ]
        if self.project is None:
            return named
        return named + project_sources(self.project, Path.home(), trusted=self.trust_project)


def find_sources(configured: HookSettings, default_project: Path | None = None) -> Sources:
    """Return the configured sources; if there are none, `default_project` is the project."""
    policy, files = configured.policy, configured.files
    named = bool(policy or files or configured.database)
    project = configured.project or (None if named else default_project)
    if project is not None and project.is_file():
        remedy = "name the project's folder, or use --hooks"
        raise NotADirectoryError(f"hooks.project: {project}: is a file; {remedy}")
    if project is not None and not project.is_dir():
        raise NotADirectoryError(f"hooks.project: {project}: there is no such folder; check the path")
    return Sources(
        policy, files, project and project.resolve(), state_folder(configured), configured.trust_project
    )


def state_folder(configured: HookSettings) -> Path:
    """Return the state folder, which may not exist yet. Raises NotADirectoryError if it is not a folder."""
    state = configured.state or _default_state_folder()
    if os.path.exists(state) and not os.path.isdir(state):
        raise NotADirectoryError(f"hooks.state: {state}: is not a folder; choose one with --state")
    return state


def _default_state_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "hookgate"


def shown_settings(effective: EffectiveConfig) -> dict[str, tuple[Any, str]]:
    """Return the value and the source of every setting, by its dotted name."""
    document = effective.config.model_dump(mode="json")  # pydantic masks secrets
    document["hooks"]["state"] = str(state_folder(effective.config.hooks))
    settings: dict[str, tuple[Any, str]] = {}
    for name, setting in SETTINGS.items():
        value = document[setting.section][setting.key]
        if setting.item is not None:
            settings |= _shown_tables(effective, name, value)
            continue
        shown = masked(value) if isinstance(value, str) else value
        settings[name] = (shown, effective.places.get(name, "default"))
    for section in NAMED:
        for name, table in document[section].items():
            place = effective.places[f"{section}.{name}"]
            settings |= {f"{section}.{name}.{key}": (value, place) for key, value in table.items()}
    return settings


def _shown_tables(
    effective: EffectiveConfig, name: str, tables: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[Any, str]]:
    """Return the settings in a list of tables as `shown_settings` does."""
    shown: dict[str, tuple[Any, str]] = {}
    for number, table in enumerate(tables):
        at = f"{name}[{number}]"
        shown |= {f"{at}.{key}": (value, effective.place_of(at)) for key, value in table.items()}
    return shown or {name: ([], "default")}
