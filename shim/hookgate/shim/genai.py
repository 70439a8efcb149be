"""Integration with google-genai: points a client at the gateway and runs its Python tools through hooks.

    client = genai.Client()
    instrument(client, "http://127.0.0.1:8787")

The module uses the SDK's public names, with two exceptions: the base URL of an existing client
(`_set_base_url`), and the contents that automatic function calling sends (`_send_with_errors`).
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from google import genai

from hookgate.shim.decisions import ShimError, Stopped, ToolDenied, ToolFailed
from hookgate.shim.sessions import SyncSession
from hookgate.shim.shim import Shim
from hookgate.shim.transports import TELLS, without_session

Function = Callable[..., Any]


class _Error(str):
    """A tool's result that is sent to the model as `{"error": …}` instead of `{"result": …}`."""

    __slots__ = ()


def instrument(client: genai.Client, at: Shim | str, session_id: str | None = None) -> SyncSession:
    """Point the client at the gateway, and run its Python tools through the hooks there.

    `at` is a gateway's base URL, called with the client's own key, or a shim. A shim with an engine leaves
    the client's base URL unchanged. Returns the client's session, which may be used as it is, or entered with
    `with` so that its start and end are events. Calls raise Stopped if a hook answered `continue: false`
    about a tool. The SDK itself calls the tools of MCP servers, which are not covered. Raises ShimError if
    the SDK's version is not supported.
    """
    api_client = _private_attribute(client, "_api_client")
    shim = at if isinstance(at, Shim) else Shim(at, getattr(api_client, "api_key", None))
    session = shim.sync_session(session_id, context="delivered")
    if shim.url is not None:
        _set_base_url(client, f"{without_session(shim.url)}/s/{session.session_id}")
    for owner in (client, client.aio):
        for name in ("generate_content", "generate_content_stream"):
            _wrap(owner.models, name, functools.partial(_guard_config, session))
        for name in ("_generate_content", "_generate_content_stream"):
            _private_attribute(owner.models, name)
            _wrap(owner.models, name, functools.partial(_send_with_errors, session))
        _guard_chats(owner, session)
    return session


# ---- the client


def _set_base_url(client: genai.Client, url: str) -> None:
    """Send all calls to the gateway, and tell it not to derive tool events from them."""
    options = _private_attribute(_private_attribute(client, "_api_client"), "_http_options")
    options.base_url = url
    options.headers = {**(options.headers or {}), TELLS: "tools"}


def _private_attribute(owner: Any, name: str) -> Any:
    attribute = getattr(owner, name, None)
    if attribute is None:
        raise ShimError(
            f"this version of google-genai has no {type(owner).__name__}.{name}; install version 3"
        )
    return attribute


def _wrap(owner: Any, name: str, wrapper: Callable[[Function], Function]) -> None:
    """Replace a method of this object only, not of its class, so that other clients are unaffected."""
    setattr(owner, name, wrapper(getattr(owner, name)))


def _guard_chats(owner: Any, session: SyncSession) -> None:
    """Guard the tools of chats, which call tools themselves.

    The SDK creates a new object at each access of `chats`, so the property is replaced, in a subclass.
    """
    owner_class = type(owner)

    def chats(self: Any) -> Any:
        chats_object = owner_class.chats.fget(self)
        _wrap(chats_object, "create", create)
        return chats_object

    def create(original: Function) -> Function:
        def create_guarded(*, config: Any = None, **arguments: Any) -> Any:
            chat = original(config=_guarded_config(session, config), **arguments)
            for name in ("send_message", "send_message_stream"):
                _wrap(chat, name, functools.partial(_guard_config, session))
            return chat

        return create_guarded

    owner.__class__ = type(owner_class.__name__, (owner_class,), {"chats": property(chats)})


def _guard_config(session: SyncSession, original: Function) -> Function:
    """Wrap a method so that the tools of its `config` are guarded."""

    @functools.wraps(original)
    def call_guarded(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **kwargs)
        if "config" in bound.arguments:
            bound.arguments["config"] = _guarded_config(session, bound.arguments["config"])
        return original(*bound.args, **bound.kwargs)

    return call_guarded


def _send_with_errors(session: SyncSession, original: Function) -> Function:
    """Wrap the method that sends contents: denials of tools become errors, and a stop raises Stopped."""

    @functools.wraps(original)
    def send(*, contents: Any, **arguments: Any) -> Any:
        if stopped := session.lift():
            raise stopped
        for content in contents if isinstance(contents, list) else []:
            for part in getattr(content, "parts", None) or []:
                _mark_error(part)
        return original(contents=contents, **arguments)

    return send


def _mark_error(part: Any) -> None:
    response = getattr(getattr(part, "function_response", None), "response", None) or {}
    if isinstance(refusal := response.get("result"), _Error):
        part.function_response.response = {"error": str(refusal)}


# ---- its tools


def _guarded_config(session: SyncSession, config: Any) -> Any:
    """Return a copy of a configuration with its Python functions guarded."""
    tools = (config.get("tools") if isinstance(config, dict) else getattr(config, "tools", None)) or []
    if not any(map(inspect.isroutine, tools)):
        return config
    guarded_tools = [_guarded_tool(session, tool) if inspect.isroutine(tool) else tool for tool in tools]
    return (
        {**config, "tools": guarded_tools}
        if isinstance(config, dict)
        else config.model_copy(update={"tools": guarded_tools})
    )


def _guarded_tool(session: SyncSession, function: Function) -> Function:
    """Guard a function, and return denials as results: the SDK would reword an exception."""
    # A chat calls `models`, whose methods are wrapped as well.
    if getattr(function, "guarded_by", None) is session:
        return function
    guarded = session.guard(function)

    @functools.wraps(function)
    def call_tool(*args: Any, **kwargs: Any) -> Any:
        try:
            return guarded(*args, **kwargs)
        except (ToolDenied, ToolFailed, Stopped) as refusal:
            return _Error(refusal)

    @functools.wraps(function)
    async def call_tool_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await guarded(*args, **kwargs)
        except (ToolDenied, ToolFailed, Stopped) as refusal:
            return _Error(refusal)

    tool: Any = call_tool_async if inspect.iscoroutinefunction(function) else call_tool
    tool.guarded_by = session
    return cast("Function", tool)
