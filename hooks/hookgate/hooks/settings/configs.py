"""What a settings file may say of a hook and of a group of hooks, checked by pydantic.

The field names are Gemini CLI's where it has them; the rest is hookgate's own and is ignored by Gemini CLI.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

DEFAULT_TIMEOUT_MS = 60_000
"""The documents' default, in milliseconds."""

OnError = Literal["allow", "deny"]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Globs = Annotated[list[str], BeforeValidator(_listed)]
"""Names, with the wildcards `*`, `?` and `[…]`; a single name stands for a list of one."""


class When(BaseModel):
    """Whom a hook is for: it runs when every list that is given holds the call's value."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    models: Globs | None = None
    clients: Globs | None = None
    keys: Globs | None = None
    sessions: Globs | None = None
    tools: Globs | None = None


class HookConfig(BaseModel):
    """What hooks of every kind have in common. `timeout` is in milliseconds."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str | None = None
    description: str | None = None
    timeout: Annotated[float, Field(gt=0)] = DEFAULT_TIMEOUT_MS
    env: dict[str, str] = {}
    on_error: OnError | None = None
    view: Literal["text", "parts", "raw"] = "text"
    mode: Literal["enforce", "observe"] = "enforce"
    merge: Literal["union", "intersect"] = "union"
    when: When = When()


class CommandConfig(HookConfig):
    """A program per event: JSON on stdin, verdict by stdout and exit code.

    `command` is a line for the shell, or a list of program and arguments that meets no shell. With
    `persistent` the program stays alive: one line of JSON in, one line out, for one call after another;
    up to `workers` of it run at once.
    """

    type: Literal["command"]
    command: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    )
    persistent: bool = False
    workers: Annotated[int, Field(ge=1, le=64)] = 4


class RuntimeConfig(HookConfig):
    """A Python callable in the gateway's process: `package.module:function` or `./file.py:function`."""

    type: Literal["runtime"]
    action: Annotated[str, Field(pattern=r"^[^:]+:[A-Za-z_]\w*$")]


class HttpConfig(HookConfig):
    """A service that gets each event as a POST: `http(s)://host/path`, or `unix:/socket:/path`.

    In the values of `headers`, `$NAME` stands for an environment variable.
    """

    type: Literal["http"]
    url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+\S*|unix:/[^:\s]+(:/\S*)?)$")]
    headers: dict[str, str] = {}


class BuiltinConfig(HookConfig):
    """A policy that comes with hookgate, by its name, and what it wants to know."""

    type: Literal["builtin"]
    builtin: Annotated[str, Field(min_length=1)]
    options: dict[str, Any] = {}


AnyConfig = CommandConfig | RuntimeConfig | HttpConfig | BuiltinConfig


class GroupConfig(BaseModel):
    """Hooks that share a matcher, and run side by side or in turn."""

    model_config = ConfigDict(extra="ignore", strict=True)

    matcher: str | None = None
    sequential: bool = False
    hooks: list[Any]


class FileConfig(BaseModel):
    """What `hooksConfig` says for the hooks of its file (`on_error`) and for all (the rest).

    `deadline` is the whole time of an event in milliseconds; `concurrency` counts hooks that run at once.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    on_error: OnError | None = None
    deadline: Annotated[float, Field(gt=0)] | None = None
    concurrency: Annotated[int, Field(ge=1)] | None = None
    http_targets: list[str] = []
