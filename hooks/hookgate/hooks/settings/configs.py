"""The pydantic models of hooks, groups of hooks and `hooksConfig` in a settings file.

Field names that Gemini CLI defines are used as they are. The others are hookgate's own; Gemini CLI ignores
them.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hookgate.hooks.settings.policies import POLICIES

DEFAULT_TIMEOUT_MS = 60_000
"""The default timeout of a hook in milliseconds, as documented by Gemini CLI."""

OnError = Literal["allow", "deny"]

StreamMode = Literal["held", "event", "window", "complete"]
"""How much of a streamed answer a hook gets at once. The more it gets, the longer the client waits.

`held` is for policies with a screen, which decides itself what to hold back.
"""

STREAM_MODES: tuple[StreamMode, ...] = ("held", "event", "window", "complete")

_SELECTABLE_MODES = STREAM_MODES[1:]
"""The modes for settings files: a policy with a screen always has `held`."""


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check_command(value: Any) -> Any:
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) for word in words):
        raise PydanticCustomError(
            "form", "must be a shell command line, or a list of a program and its arguments"
        )
    if not words or not all(words):
        raise PydanticCustomError("form", "is empty")
    return value


_WORD = {"type": "string", "minLength": 1}
_COMMAND_SCHEMA = {"anyOf": [_WORD, {"type": "array", "items": _WORD, "minItems": 1}]}


def _matching(pattern: str, description: str) -> AfterValidator:
    """Return a validator for strings that match `pattern`, whose error contains the description."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise PydanticCustomError("form", "must be {description}", {"description": description})
        return value

    return AfterValidator(check)


_ACTION = r"[^:]+:[A-Za-z_]\w*"
_SECRET_IN_URL = re.compile(r"(?<=//)[^/?#]*@|[?#].*")
_URL = r"https?://[^/\s]\S*|unix:/[^:\s]+(:/\S*)?"
_NAMES = {"type": "array", "items": {"type": "string"}}

_LONGEST_GLOB = 256


def _check_globs(names: list[str]) -> list[str]:
    """Check the lengths: the time to compile one grows with its square."""
    if any(len(name) > _LONGEST_GLOB for name in names):
        raise PydanticCustomError("form", f"has a name of more than {_LONGEST_GLOB} characters; shorten it")
    return names


Globs = Annotated[
    list[str],
    BeforeValidator(_to_list),
    AfterValidator(_check_globs),
    WithJsonSchema({"anyOf": [{"type": "string"}, _NAMES]}),
]
"""Names, with the wildcards `*`, `?` and `[…]`. A string is the same as a list of one name."""


def shown_url(url: str) -> str:
    """Return the URL without parts that may be secret: user, password, query and fragment."""
    return _SECRET_IN_URL.sub("", url)


class When(BaseModel):
    """Conditions under which a hook runs: all that are given must be met by the call."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    models: Globs | None = None
    """The model of the call, such as `gemini-*-pro`, which BeforeModel hooks may have chosen. For answers of
    a batch that are read later, their `modelVersion`; none for events that an agent reports."""

    clients: Globs | None = None
    """Names of client programs: what precedes the slash in `User-Agent`."""

    keys: Globs | None = None
    """Names of API keys in `hookgate.toml`, or owners of issued keys. Any other key is named by the first 24
    digits of its SHA-256, which `hookgate keys hash` prints."""

    teams: Globs | None = None
    """Names of the teams to which API keys belong."""

    sessions: Globs | None = None
    """Names of sessions."""

    tools: Globs | None = None
    """The tool of a tool event; for BeforeModel and BeforeToolSelection any function that the request
    declares."""

    operations: Globs | None = None
    """Methods of the API, such as `*enerateContent` and `embedContent`; none for events that an agent
    reports."""

    requires_json: bool | None = Field(default=None, alias="json")
    """Whether the call requires a JSON answer, as an agent's own questions do."""


class HookConfig(BaseModel):
    """The settings that all types of hooks share. `timeout` is in milliseconds."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, defer_build=True)

    name: str | None = None
    """The hook's name, in logs and for `hookgate hooks disable`. Default: the command, action, URL or
    policy."""

    description: str | None = None
    """A comment, which `hookgate hooks list` and the panel show."""

    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_TIMEOUT_MS
    """The time limit in milliseconds. A hook that exceeds it has failed, and all that it has started is
    killed."""

    on_error: OnError | None = None
    """What happens if the hook fails: the call continues with a warning (`allow`), or is denied (`deny`).
    Default: depends on where the hook is configured."""

    view: Literal["text", "parts", "raw", "body"] = "text"
    """How requests are presented: text only, all parts of a turn, the raw contents too, or the whole body."""

    stream: Annotated[StreamMode | None, WithJsonSchema({"enum": list(_SELECTABLE_MODES)})] = None
    """AfterModel: how much of a streamed answer the hook gets at once: `event`, `window` or `complete`.
    Default: depends on where the hook is configured."""

    window: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """With `"stream": "window"`: the number of characters that are held back and passed again with the
    text that follows."""

    mode: Literal["enforce", "observe"] = "enforce"
    """`observe`: the hook runs, but its decisions and edits are only recorded."""

    merge: Literal["union", "intersect"] = "union"
    """`intersect`: no other hook can offer a tool that this hook excludes."""

    when: When = When()
    """Conditions under which the hook runs. By default it always runs."""

    @field_validator("stream", mode="before")
    @classmethod
    def _check_stream(cls, value: Any) -> Any:
        if value in _SELECTABLE_MODES or (value == "held" and issubclass(cls, BuiltinConfig)):
            return value
        raise PydanticCustomError("form", "must be 'event', 'window' or 'complete'")


class CommandConfig(HookConfig):
    """A program that runs for each event: JSON on stdin, its decision on stdout and in the exit code.

    `command` is a shell command line, or a list of a program and its arguments, which runs without a shell.
    With `persistent`, the program stays alive and handles one call after another: one line of JSON in, one
    line out. Up to `workers` instances of it run at once.
    """

    type: Literal["command"]
    command: Annotated[str | list[str], BeforeValidator(_check_command), WithJsonSchema(_COMMAND_SCHEMA)]
    """A shell command line, or a list of a program and its arguments, which runs without a shell."""

    env: dict[str, str] = {}
    """Additional environment variables. `$NAME` in a value is replaced with a variable of the gateway's, or,
    with a warning, with nothing if it is not set."""

    dialect: Literal["antigravity"] | None = None
    """The agent for whose hooks the program was written: it reads and prints what these do."""

    persistent: bool = False
    """Whether the program stays alive: for each event, one line of JSON in, and one out."""

    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """The maximum number of concurrent instances of a persistent program."""

    @model_validator(mode="after")
    def _check_dialect(self) -> Self:
        if self.dialect and self.persistent:
            raise PydanticCustomError("form", "dialect: a persistent program cannot have one; remove a key")
        return self

    @property
    def target(self) -> str:
        return self.command if isinstance(self.command, str) else " ".join(self.command)


class RuntimeConfig(HookConfig):
    """A Python callable in the gateway's process: `package.module:function` or `./file.py:function`."""

    type: Literal["runtime"]
    action: Annotated[
        str,
        _matching(_ACTION, "package.module:function or ./file.py:function"),
        WithJsonSchema({"type": "string", "pattern": f"^({_ACTION})$"}),
    ]
    """`package.module:function` or `./file.py:function`, relative to the project folder."""

    @property
    def target(self) -> str:
        return self.action


class HttpConfig(HookConfig):
    """A service that receives each event as a POST request: `http(s)://host/path`, or `unix:/socket:/path`.

    In the values of `headers`, `$NAME` is replaced with an environment variable.
    """

    type: Literal["http"]
    url: Annotated[
        str,
        _matching(_URL, "a URL such as https://guard.example/check, or unix:/path/to/socket:/check"),
        WithJsonSchema({"type": "string", "pattern": f"^({_URL})$"}),
    ]
    """`http(s)://host/path`, or `unix:/socket:/path`."""

    headers: dict[str, str] = {}
    """Additional headers. `$NAME` in a value is replaced with an environment variable of the gateway."""

    @property
    def target(self) -> str:
        return self.url


_QUERY = r"data(\.[A-Za-z_]\w*)+"
_FILE_NAME = {"type": "string", "minLength": 1}


class RegoConfig(HookConfig):
    """Rules in Rego, the language of Open Policy Agent, and their data: files relative to the project folder.

    The value of `query` is the output: a package with rules such as `deny`, or a rule that returns an object.
    Up to `workers` processes evaluate it at once.
    """

    type: Literal["rego"]
    files: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        BeforeValidator(_to_list),
        Field(min_length=1, max_length=100),
        WithJsonSchema({"anyOf": [_FILE_NAME, {"type": "array", "items": _FILE_NAME, "minItems": 1}]}),
    ]
    """The files with rules, and with data if their names end in `.json`."""

    query: Annotated[
        str,
        _matching(_QUERY, "a package or a rule, such as data.hookgate"),
        WithJsonSchema({"type": "string", "pattern": f"^({_QUERY})$"}),
    ] = "data.hookgate"
    """The package, or the rule, whose value is the output."""

    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5_000
    """The time limit in milliseconds. A process that exceeds it is ended, and the hook has failed."""

    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """The maximum number of processes."""

    @property
    def target(self) -> str:
        return " ".join([*self.files, self.query])


class BuiltinConfig(HookConfig):
    """A policy that comes with hookgate, with its options."""

    type: Literal["builtin"]
    builtin: Annotated[str, Field(min_length=1)]
    """The policy's name."""

    options: dict[str, Any] = {}
    """The options of the policy."""

    @model_validator(mode="before")
    @classmethod
    def _apply_defaults(cls, value: Any) -> Any:
        name = value.get("builtin") if isinstance(value, dict) else None
        policy = POLICIES.get(name) if isinstance(name, str) else None
        return {**policy.defaults, **value} if policy else value

    @model_validator(mode="after")
    def _check_view(self) -> Self:
        policy = POLICIES.get(self.builtin)
        view = policy.view if policy and policy.view else self.view
        if self.view != view:
            raise PydanticCustomError(
                "form", 'view: this policy supports only "view": "{view}"; remove the key', {"view": view}
            )
        return self

    @property
    def target(self) -> str:
        return self.builtin


AnyConfig = CommandConfig | RuntimeConfig | HttpConfig | RegoConfig | BuiltinConfig


class GroupConfig(BaseModel):
    """Hooks that share a matcher and run in parallel or sequentially."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)

    matcher: str | None = None
    """For tool events, a regular expression for the whole name; for session events, the exact trigger."""

    sequential: bool = False
    """Whether the hooks run sequentially, each with the output of the previous one applied."""

    hooks: list[Any]
    """The hooks."""


class FileConfig(BaseModel):
    """The `hooksConfig` section. `on_error` applies to the hooks of its file, the rest to all hooks.

    `deadline` is the time limit of an event in milliseconds; `concurrency` and `programs` limit the hooks
    that run at once.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, defer_build=True)

    on_error: OnError | None = None
    """The default of `on_error` for the hooks of this file."""

    deadline: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The time limit, in milliseconds, for all hooks of an event together. Default: 120000."""

    concurrency: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of hooks that run at once. Keys take turns, and so do the sessions of each key.
    Default: 64."""

    programs: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of command hooks that run at once, without persistent ones. Raise it if they mostly
    wait. Default: 4 for each processor."""

    http_targets: list[str] = []
    """URL prefixes, besides this machine, that http hooks may post to: `https://policy.example.com/hooks/`.
    Not valid in a project or an extension."""
