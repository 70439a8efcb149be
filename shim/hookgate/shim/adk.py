"""google-adk through the shim: `Runner(…, plugins=[HookgatePlugin("http://127.0.0.1:8787")])`.

The agent's model calls go to the gateway by the model's own `base_url`; the plugin names their session. Hooks
of model events run there, the others are told of here. ADK cannot have an answer tried again: where a hook
denies one, its reason is the turn's last word. Parameters of ADK's own types stand as Any: it needs another
google-genai than this project, and so another environment.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Any

from google.adk.models import LlmResponse  # type: ignore[import-untyped]  # see above
from google.adk.plugins import BasePlugin  # type: ignore[import-untyped]  # see above
from google.genai import errors, types

from hookgate.shim.errors import Blocked, Stopped, ToolDenied, tool_error
from hookgate.shim.session import Session, Turn
from hookgate.shim.shim import Shim
from hookgate.shim.tools import Tool

Json = dict[str, Any]

_SESSION_HEADER = "x-hookgate-session"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_WITHHELD = "(A prompt that a policy refused.)"


@dataclass(slots=True)
class _Invocation:
    """One turn of an ADK agent."""

    turn: Turn | None = None
    refusal: str = ""
    agent: str = ""
    """The agent that answers the user: the first that ran."""
    answer: str = ""


class HookgatePlugin(BasePlugin):  # type: ignore[misc]  # its class is Any here
    """Tells hooks of an ADK agent's sessions, turns and tools. Sessions end when the runner is closed."""

    def __init__(self, at: Shim | str, key: str | None = None) -> None:
        """`at` is a gateway's base URL or a shim; either is closed with the runner.

        The key for a URL is, if left out, what ADK's models take from the environment.
        """
        super().__init__(name="hookgate")
        known = key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
        self._shim = Shim(at, known) if isinstance(at, str) else at
        self._sessions: dict[str, Session] = {}
        self._invocations: dict[str, _Invocation] = {}
        self._tools: dict[tuple[str, str | None], Tool] = {}

    # ---- turns

    async def on_user_message_callback(
        self, *, invocation_context: Any, user_message: types.Content
    ) -> types.Content | None:
        """SessionStart and BeforeAgent. A refused prompt is withheld, also from the session's history."""
        parts = user_message.parts or []
        if any(part.function_response for part in parts):
            return None
        invocation = self._invocations[invocation_context.invocation_id] = _Invocation()
        try:
            session, context = await self._begun(invocation_context.session.id)
            invocation.turn = await session.begin(_text(user_message))
        except Blocked as blocked:
            invocation.refusal = blocked.reason
            return types.Content(role="user", parts=[types.Part(text=_WITHHELD)])
        context = "\n".join(filter(None, (context, invocation.turn.context)))
        if not context:
            return None
        added = types.Part(text=f"<hook_context>{context}</hook_context>")
        return types.Content(role=user_message.role, parts=[*parts, added])

    async def before_run_callback(self, *, invocation_context: Any) -> types.Content | None:
        """A refused turn ends before it begins."""
        invocation = self._invocations.get(invocation_context.invocation_id)
        return _said(invocation.refusal) if invocation and invocation.refusal else None

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Note who answers the user."""
        invocation = self._invocations.get(callback_context.invocation_id)
        if invocation and not invocation.agent:
            invocation.agent = agent.name

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Note the answer."""
        invocation = self._invocations.get(invocation_context.invocation_id)
        if invocation and event.content and not event.partial and event.is_final_response():
            invocation.answer = _text(event.content) or invocation.answer

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> types.Content | None:
        """AfterAgent. ADK has no second try: the reason of a denial or a stop is the last word."""
        invocation = self._invocations.get(callback_context.invocation_id)
        if invocation is None or invocation.turn is None or agent.name != invocation.agent:
            return None
        try:
            decision = await invocation.turn.answer(invocation.answer)
        except Stopped as stopped:
            return _said(stopped.reason)
        return _said(decision.reason) if decision.denied else None

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forget the turn."""
        self._invocations.pop(invocation_context.invocation_id, None)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Forget a turn that failed."""
        self._invocations.pop(invocation_context.invocation_id, None)

    # ---- model calls

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Name the session to the gateway; a stopped turn makes no further call."""
        session = self._sessions.get(callback_context.session.id)
        if session is None:
            return None
        if session.stopped is not None:
            return LlmResponse(content=_said(session.stopped))
        options = llm_request.config.http_options or types.HttpOptions()
        headers = {**(options.headers or {}), _SESSION_HEADER: session.session_id}
        llm_request.config.http_options = options.model_copy(update={"headers": headers})
        return None

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> Any:
        """A call that a policy denied is answered with the reason."""
        reason = _denial(error)
        return None if reason is None else LlmResponse(content=_said(reason))

    # ---- tools

    async def before_tool_callback(self, *, tool: Any, tool_args: Json, tool_context: Any) -> Json | None:
        """BeforeTool. Rewritten arguments go where they came from; a denial is the tool's result."""
        session = self._sessions.get(tool_context.session.id)
        if session is None:
            return None
        run = session.tool(tool.name, dict(tool_args))
        try:
            await run.__aenter__()  # it is left by another callback
        except ToolDenied as denied:
            return {"error": str(denied)}
        except Stopped as stopped:
            return {"error": tool_error(stopped.reason)}
        tool_args.update(run.args)
        self._tools[_run_of(tool_context)] = run
        return None

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Json, tool_context: Any, result: Any
    ) -> Json | None:
        """AfterTool: what the model sees of the result."""
        run = self._tools.pop(_run_of(tool_context), None)
        if run is None:
            return None
        try:
            seen = await run.result(result)
        except Stopped as stopped:
            return {"error": stopped.reason}
        if seen is result:
            return None
        return seen if isinstance(seen, dict) else {"result": seen}

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Json, tool_context: Any, error: Exception
    ) -> Json | None:
        """AfterTool of a failed tool: what hooks changed of its error is told instead of it."""
        run = self._tools.pop(_run_of(tool_context), None)
        if run is None or not isinstance(error, Exception):  # a cancelled tool is told as BaseException
            return None
        try:
            told = await run.failed(error)
        except Stopped as stopped:
            return {"error": stopped.reason}
        return None if told is None else {"error": told}

    async def close(self) -> None:
        """SessionEnd of every session."""
        sessions = [self._sessions.popitem()[1] for _ in range(len(self._sessions))]
        for session in sessions:
            await session.__aexit__(None, None, None)
        await self._shim.aclose()

    async def _begun(self, name: str) -> tuple[Session, str]:
        """The session, and what its start added for the model when it began now."""
        if (known := self._sessions.get(name)) is not None:
            return known, ""
        fits = _NAME.fullmatch(name)
        session = self._shim.session(name if fits else hashlib.sha256(name.encode()).hexdigest()[:32])
        await session.__aenter__()  # it is left by close()
        self._sessions[name] = session
        return session, session.context


def _run_of(tool_context: Any) -> tuple[str, str | None]:
    return tool_context.invocation_id, tool_context.function_call_id


def _text(content: types.Content) -> str:
    return "".join(part.text for part in content.parts or [] if part.text and not part.thought)


def _said(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def _denial(error: Exception) -> str | None:
    """The reason, if the gateway denied the call; None for any other error, such as the upstream's."""
    if not isinstance(error, errors.APIError) or error.code != 403 or not isinstance(error.details, dict):
        return None
    told = error.details.get("error", {}).get("details") or []
    ours = any(isinstance(each, dict) and each.get("reason") == "POLICY_DENIED" for each in told)
    return error.message or "" if ours else None
