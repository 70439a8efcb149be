"""What a settings file may say of a hook and of a group of hooks, checked by pydantic.

The field names are Gemini CLI's where it has them; the rest is hookgate's own and is ignored by Gemini CLI.
"""

import re
from collections.abc import Mapping
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

DEFAULT_TIMEOUT_MS = 60_000
"""The documents' default, in milliseconds."""

OnError = Literal["allow", "deny"]

StreamMode = Literal["held", "event", "window", "complete"]
"""How much of a streamed answer a hook is shown at once; the more, the later the client sees it."""

STREAM_MODES: tuple[StreamMode, ...] = ("held", "event", "window", "complete")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _line_or_list(value: Any) -> Any:
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) for word in words):
        raise PydanticCustomError(
            "form", "has to be a line for the shell, or a list of program and arguments"
        )
    if not words or not all(words):
        raise PydanticCustomError("form", "is empty")
    return value


_WORD = {"type": "string", "minLength": 1}
_LINE_OR_LIST = {"anyOf": [_WORD, {"type": "array", "items": _WORD, "minItems": 1}]}


def _shaped(pattern: str, words: str) -> AfterValidator:
    """A check of the whole text, whose error says in words what is expected."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise PydanticCustomError("form", "has to be {words}", {"words": words})
        return value

    return AfterValidator(check)


_ACTION = r"[^:]+:[A-Za-z_]\w*"
_SECRET_IN_URL = re.compile(r"(?<=//)[^/?#]*@|[?#].*")
_URL = r"https?://[^/\s]+\S*|unix:/[^:\s]+(:/\S*)?"
_NAMES = {"type": "array", "items": {"type": "string"}}

Globs = Annotated[
    list[str], BeforeValidator(_listed), WithJsonSchema({"anyOf": [{"type": "string"}, _NAMES]})
]
"""Names, with the wildcards `*`, `?` and `[…]`; a single name stands for a list of one."""


def shown_url(url: str) -> str:
    """The url without what may be secret: user, password, query and fragment."""
    return _SECRET_IN_URL.sub("", url)


class When(BaseModel):
    """Whom a hook is for: it runs when every list that is given holds the call's value."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    models: Globs | None = None
    """Models, such as `gemini-*-pro`."""

    clients: Globs | None = None
    """Client programs, by their name."""

    keys: Globs | None = None
    """API keys, by the name they have here."""

    teams: Globs | None = None
    """Teams, which named API keys are in."""

    sessions: Globs | None = None
    """Sessions, by their id."""

    tools: Globs | None = None
    """Tools that the call is about."""


class HookConfig(BaseModel):
    """What hooks of every kind have in common. `timeout` is in milliseconds."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, use_attribute_docstrings=True)

    name: str | None = None
    """For logs and for switching the hook off; what runs, if left out."""

    description: str | None = None
    """For people."""

    timeout: Annotated[float, Field(gt=0)] = DEFAULT_TIMEOUT_MS
    """Milliseconds; then the hook is ended and has failed."""

    on_error: OnError | None = None
    """What happens when the hook fails: the call goes on (`allow`), or is refused (`deny`)."""

    view: Literal["text", "parts", "raw", "body"] = "text"
    """How requests are shown: texts alone, every part of a turn, the raw contents too, or the whole body."""

    stream: StreamMode = "event"
    """AfterModel: how much of a streamed answer it is shown at once: `event`, `window` or `complete`.
    `held` is for policies that say themselves what has to wait."""

    window: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """With `"stream": "window"`: characters that are held back, and shown again with what follows."""

    mode: Literal["enforce", "observe"] = "enforce"
    """`observe`: the hook runs, and what it says changes nothing."""

    merge: Literal["union", "intersect"] = "union"
    """`intersect`: no other hook can offer a tool that this one left out."""

    when: When = When()
    """Whom the hook is for; all, if left out."""

    @field_validator("stream")
    @classmethod
    def _held_is_for_policies(cls, value: StreamMode) -> StreamMode:
        if value == "held" and not issubclass(cls, BuiltinConfig):
            raise PydanticCustomError("form", "has to be event, window or complete; held is for policies")
        return value


class CommandConfig(HookConfig):
    """A program per event: JSON on stdin, verdict by stdout and exit code.

    `command` is a line for the shell, or a list of program and arguments that meets no shell. With
    `persistent` the program stays alive: one line of JSON in, one line out, for one call after another;
    up to `workers` of it run at once.
    """

    type: Literal["command"]
    command: Annotated[str | list[str], BeforeValidator(_line_or_list), WithJsonSchema(_LINE_OR_LIST)]
    """A line for the shell, or a list of program and arguments."""

    env: dict[str, str] = {}
    """Further environment variables; `$NAME` in a value stands for a variable of this process."""

    persistent: bool = False
    """Whether the program stays alive: one line of JSON in, one line out."""

    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """How many of a persistent program may run at once."""

    @property
    def target(self) -> str:
        return self.command if isinstance(self.command, str) else " ".join(self.command)


class RuntimeConfig(HookConfig):
    """A Python callable in the gateway's process: `package.module:function` or `./file.py:function`."""

    type: Literal["runtime"]
    action: Annotated[
        str,
        _shaped(_ACTION, "package.module:function or ./file.py:function"),
        WithJsonSchema({"type": "string", "pattern": f"^({_ACTION})$"}),
    ]
    """`package.module:function` or `./file.py:function`, relative to the project folder."""

    @property
    def target(self) -> str:
        return self.action


class HttpConfig(HookConfig):
    """A service that gets each event as a POST: `http(s)://host/path`, or `unix:/socket:/path`.

    In the values of `headers`, `$NAME` stands for an environment variable.
    """

    type: Literal["http"]
    url: Annotated[
        str,
        _shaped(_URL, "http(s)://… or unix:/socket"),
        WithJsonSchema({"type": "string", "pattern": f"^({_URL})$"}),
    ]
    """`http(s)://host/path`, or `unix:/socket:/path`."""

    headers: dict[str, str] = {}
    """Further headers; `$NAME` in a value stands for an environment variable."""

    @property
    def target(self) -> str:
        return self.url


_NEEDS: Mapping[Any, Mapping[str, str]] = {
    "redact": {"view": "body", "stream": "held"},
    "models": {"view": "raw"},
    "cassette": {"view": "raw", "stream": "complete"},
}
"""What policies want otherwise than hooks do, unless their settings say so."""


class BuiltinConfig(HookConfig):
    """A policy that comes with hookgate, by its name, and what it wants to know."""

    type: Literal["builtin"]
    builtin: Annotated[str, Field(min_length=1)]
    """The policy's name."""

    options: dict[str, Any] = {}
    """What the policy wants to know."""

    @model_validator(mode="before")
    @classmethod
    def _needs(cls, value: Any) -> Any:
        needs = _NEEDS.get(value.get("builtin"), {}) if isinstance(value, dict) else {}
        return {**needs, **value} if needs else value

    @model_validator(mode="after")
    def _sees_what_it_needs(self) -> Self:
        view = _NEEDS.get(self.builtin, {}).get("view", self.view)
        if self.view != view:  # in another view it would overlook what it is there for
            raise PydanticCustomError(
                "form", 'view: this policy knows only "view": "{view}"; leave it out', {"view": view}
            )
        return self

    @property
    def target(self) -> str:
        return self.builtin


AnyConfig = CommandConfig | RuntimeConfig | HttpConfig | BuiltinConfig


class GroupConfig(BaseModel):
    """Hooks that share a matcher, and run side by side or in turn."""

    model_config = ConfigDict(extra="ignore", strict=True, use_attribute_docstrings=True)

    matcher: str | None = None
    """For tool events a regular expression over the whole name, for session events the exact trigger."""

    sequential: bool = False
    """Whether the hooks run in turn, each on what the one before made."""

    hooks: list[Any]


class FileConfig(BaseModel):
    """What `hooksConfig` says for the hooks of its file (`on_error`) and for all (the rest).

    `deadline` is the whole time of an event in milliseconds; `concurrency` counts hooks that run at once.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, use_attribute_docstrings=True)

    on_error: OnError | None = None
    """What happens when a hook of this file fails that does not say so itself."""

    deadline: Annotated[float, Field(gt=0)] | None = None
    """The whole time of an event, in milliseconds."""

    concurrency: Annotated[int, Field(ge=1)] | None = None
    """How many hooks may run at once."""

    http_targets: list[str] = []
    """Where http hooks may post to beside this machine, such as `https://policy.example.com/hooks/`."""
