"""google-genai through the shim: a client at the gateway, its Python tools run as hooks decide.

    client = genai.Client()
    instrument(client, "http://127.0.0.1:8787")

All of this goes by the SDK's public names, but for two places: `_point`, the base URL of a client that
exists, and `_restate`, the contents that automatic function calling sends.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from google import genai

from hookgate.shim.errors import ShimError, Stopped, ToolDenied, ToolFailed
from hookgate.shim.remote import TELLS, without_session
from hookgate.shim.shim import Shim
from hookgate.shim.sync import SyncSession

Function = Callable[..., Any]


class _Error(str):
    """A tool's result that the model shall be told as an error: `{"error": …}` instead of `{"result": …}`."""

    __slots__ = ()


def instrument(client: genai.Client, at: Shim | str, session_id: str | None = None) -> SyncSession:
    """Point the client at the gateway, and run its Python tools as the hooks there decide.

    `at` is a gateway's base URL, asked with the client's own key, or a shim; one with an engine leaves the
    client where it is. Gives the client's session: it may be used as it is, or entered with `with` so that
    its start and end are events. Calls raise Stopped where a hook said `continue: false` about a tool. Tools
    of MCP servers are called by the SDK itself. Raises ShimError for an SDK that this does not fit.
    """
    shim = at if isinstance(at, Shim) else Shim(at, getattr(_private(client, "_api_client"), "api_key", None))
    session = shim.sync_session(session_id, context="delivered")
    if shim.url is not None:
        _point(client, f"{without_session(shim.url)}/s/{session.session_id}")
    for owner in (client, client.aio):
        for name in ("generate_content", "generate_content_stream"):
            _wrap(owner.models, name, functools.partial(_configured, session))
        for name in ("_generate_content", "_generate_content_stream"):
            _private(owner.models, name)
            _wrap(owner.models, name, functools.partial(_restate, session))
        _with_chats(owner, session)
    return session


# ---- the client


def _point(client: genai.Client, url: str) -> None:
    """Have all calls go to the gateway, and tell it not to derive events of tools from them."""
    options = _private(_private(client, "_api_client"), "_http_options")
    options.base_url = url
    options.headers = {**(options.headers or {}), TELLS: "tools"}


def _private(owner: Any, name: str) -> Any:
    found = getattr(owner, name, None)
    if found is None:
        raise ShimError(f"this google-genai has no {type(owner).__name__}.{name}; hookgate knows version 3")
    return found


def _wrap(owner: Any, name: str, wrap: Callable[[Function], Function]) -> None:
    """Of this object alone, never of its class: other clients of the program stay as they are."""
    setattr(owner, name, wrap(getattr(owner, name)))


def _with_chats(owner: Any, session: SyncSession) -> None:
    """Guard the tools of chats, which call them by themselves. Each access of `chats` makes a new object."""
    kind = type(owner)

    def chats(self: Any) -> Any:
        made = kind.chats.fget(self)
        _wrap(made, "create", create)
        return made

    def create(original: Function) -> Function:
        def creating(*, config: Any = None, **asking: Any) -> Any:
            chat = original(config=_guarded(session, config), **asking)
            for name in ("send_message", "send_message_stream"):
                _wrap(chat, name, functools.partial(_configured, session))
            return chat

        return creating

    owner.__class__ = type(kind.__name__, (kind,), {"chats": property(chats)})


def _configured(session: SyncSession, original: Function) -> Function:
    """The method, with the tools of its `config` guarded. What it gives goes through."""

    @functools.wraps(original)
    def calling(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **kwargs)
        if "config" in bound.arguments:
            bound.arguments["config"] = _guarded(session, bound.arguments["config"])
        return original(*bound.args, **bound.kwargs)

    return calling


def _restate(session: SyncSession, original: Function) -> Function:
    """The method that sends contents, with refusals of tools told as errors. Raises Stopped for a stop."""

    @functools.wraps(original)
    def sending(*, contents: Any, **asking: Any) -> Any:
        if stopped := session.lift():
            raise stopped
        for content in contents if isinstance(contents, list) else []:
            for part in getattr(content, "parts", None) or []:
                _tell_error(part)
        return original(contents=contents, **asking)

    return sending


def _tell_error(part: Any) -> None:
    response = getattr(getattr(part, "function_response", None), "response", None) or {}
    if isinstance(refusal := response.get("result"), _Error):
        part.function_response.response = {"error": str(refusal)}


# ---- its tools


def _guarded(session: SyncSession, config: Any) -> Any:
    """A configuration with its Python functions guarded; the caller's own stays as it is."""
    tools = (config.get("tools") if isinstance(config, dict) else getattr(config, "tools", None)) or []
    if not any(map(inspect.isroutine, tools)):
        return config
    ours = [_tool(session, tool) if inspect.isroutine(tool) else tool for tool in tools]
    return (
        {**config, "tools": ours} if isinstance(config, dict) else config.model_copy(update={"tools": ours})
    )


def _tool(session: SyncSession, function: Function) -> Function:
    """A function whose refusals are results: an exception would be told in the SDK's own words."""
    if getattr(function, "guarded_by", None) is session:  # a chat asks the models that are wrapped as well
        return function
    guarded = session.guard(function)

    @functools.wraps(function)
    def waited(*args: Any, **kwargs: Any) -> Any:
        try:
            return guarded(*args, **kwargs)
        except (ToolDenied, ToolFailed, Stopped) as refusal:
            return _Error(refusal)

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        try:
            return await guarded(*args, **kwargs)
        except (ToolDenied, ToolFailed, Stopped) as refusal:
            return _Error(refusal)

    tool: Any = awaited if inspect.iscoroutinefunction(function) else waited
    tool.guarded_by = session
    return cast("Function", tool)
