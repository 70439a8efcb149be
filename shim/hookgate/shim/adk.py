"""A plugin for google-adk: `Runner(…, plugins=[HookgatePlugin("http://127.0.0.1:8787")])`.

The agent's model calls reach the gateway through the model's own `base_url`; the plugin adds the session's
header to them. Hooks of model events run at the gateway; the plugin reports all other events. ADK cannot
retry an answer: if a hook denies one, its reason is the turn's answer. Parameters of ADK's own types are
annotated as Any, because ADK needs another version of google-genai than this project.
"""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from google.adk.models import LlmResponse  # type: ignore[import-untyped]  # see above
from google.adk.plugins import BasePlugin  # type: ignore[import-untyped]  # see above
from google.genai import errors, types

from hookgate.shim.decisions import Blocked, Stopped, ToolDenied, tool_error
from hookgate.shim.sessions import Session, Turn
from hookgate.shim.shim import SESSION_ID, Shim
from hookgate.shim.tools import Tool

Json = dict[str, Any]

_SESSION_HEADER = "x-hookgate-session"
_WITHHELD = "(A prompt that a policy refused.)"


@dataclass(slots=True)
class _Invocation:
    """One turn of an ADK agent."""

    turn: Turn | None = None
    refusal: str = ""
    agent: str = ""
    """The name of the agent that answers the user: the first one that runs."""
    answer: str = ""


class HookgatePlugin(BasePlugin):  # type: ignore[misc]  # BasePlugin is Any here
    """Report an ADK agent's sessions, turns and tools to hooks. Sessions end when the runner is closed."""

    def __init__(self, at: Shim | str, key: str | None = None) -> None:
        """Connect to a gateway's base URL or a shim, which is closed with the runner.

        The default for `key` is the environment variable that ADK's models read. A shim has its own key.
        """
        super().__init__(name="hookgate")
        default_key = key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
        self._shim = Shim(at, default_key) if isinstance(at, str) else at
        self._sessions: dict[str, Session] = {}
        self._invocations: dict[str, _Invocation] = {}
        self._tools: dict[tuple[str, str | None], Tool] = {}

    # ---- turns

    async def on_user_message_callback(
        self, *, invocation_context: Any, user_message: types.Content
    ) -> types.Content | None:
        """Fire SessionStart and BeforeAgent. A denied prompt is withheld, even from the session's history."""
        parts = user_message.parts or []
        if any(part.function_response for part in parts):
            return None
        invocation = self._invocations[invocation_context.invocation_id] = _Invocation()
        try:
            session, context = await self._session_for(invocation_context.session.id)
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
        """End a denied turn before it begins."""
        invocation = self._invocations.get(invocation_context.invocation_id)
        return _model_content(invocation.refusal) if invocation and invocation.refusal else None

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Remember which agent answers the user."""
        invocation = self._invocations.get(callback_context.invocation_id)
        if invocation and not invocation.agent:
            invocation.agent = agent.name

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Remember the answer."""
        invocation = self._invocations.get(invocation_context.invocation_id)
        if invocation and event.content and not event.partial and event.is_final_response():
            invocation.answer = _text(event.content) or invocation.answer

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> types.Content | None:
        """Fire AfterAgent. ADK cannot retry: the reason of a denial or a stop becomes the answer."""
        invocation = self._invocations.get(callback_context.invocation_id)
        if invocation is None or invocation.turn is None or agent.name != invocation.agent:
            return None
        try:
            decision = await invocation.turn.answer(invocation.answer)
        except Stopped as stopped:
            return _model_content(stopped.reason)
        return _model_content(decision.reason) if decision.denied else None

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forget the turn."""
        self._invocations.pop(invocation_context.invocation_id, None)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Forget a turn that failed."""
        self._invocations.pop(invocation_context.invocation_id, None)

    # ---- model calls

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Add the session's header to the call. A stopped turn makes no further calls."""
        session = self._sessions.get(callback_context.session.id)
        if session is None:
            return None
        if session.stopped is not None:
            return LlmResponse(content=_model_content(session.stopped))
        options = llm_request.config.http_options or types.HttpOptions()
        headers = {**(options.headers or {}), _SESSION_HEADER: session.session_id}
        llm_request.config.http_options = options.model_copy(update={"headers": headers})
        return None

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> Any:
        """Answer a call that a policy denied with the reason."""
        reason = _denial_reason(error)
        return None if reason is None else LlmResponse(content=_model_content(reason))

    # ---- tools

    async def before_tool_callback(self, *, tool: Any, tool_args: Json, tool_context: Any) -> Json | None:
        """Fire BeforeTool. Rewritten arguments are updated in place; a denial is the tool's result."""
        session = self._sessions.get(tool_context.session.id)
        if session is None:
            return None
        run = session.tool(tool.name, dict(tool_args))
        try:
            await run.__aenter__()  # another callback reports the result
        except ToolDenied as denied:
            return {"error": str(denied)}
        except Stopped as stopped:
            return {"error": tool_error(stopped.reason)}
        tool_args.update(run.args)
        self._tools[_run_key(tool_context)] = run
        return None

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Json, tool_context: Any, result: Any
    ) -> Json | None:
        """Fire AfterTool, and return the result that the model may see if hooks changed it."""
        run = self._tools.pop(_run_key(tool_context), None)
        if run is None:
            return None
        try:
            visible = await run.result(result)
        except Stopped as stopped:
            return {"error": stopped.reason}
        if visible is result:
            return None
        return visible if isinstance(visible, dict) else {"result": visible}

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Json, tool_context: Any, error: Exception
    ) -> Json | None:
        """Fire AfterTool for a failed tool, and return its error message if hooks changed it."""
        run = self._tools.pop(_run_key(tool_context), None)
        if run is None or not isinstance(error, Exception):  # a cancelled tool has a BaseException
            return None
        try:
            message = await run.failed(error)
        except Stopped as stopped:
            return {"error": stopped.reason}
        return None if message is None else {"error": message}

    async def close(self) -> None:
        """Fire SessionEnd for every session, and close the shim."""
        sessions = [self._sessions.popitem()[1] for _ in range(len(self._sessions))]
        for session in sessions:
            await session.__aexit__(None, None, None)
        await self._shim.aclose()

    async def _session_for(self, name: str) -> tuple[Session, str]:
        """Return the session, and the context that its start added for the model if it starts now."""
        if (session := self._sessions.get(name)) is not None:
            return session, ""
        valid = SESSION_ID.fullmatch(name)
        session = self._shim.session(name if valid else hashlib.sha256(name.encode()).hexdigest()[:32])
        await session.__aenter__()  # close() exits it
        self._sessions[name] = session
        return session, session.context


def _run_key(tool_context: Any) -> tuple[str, str | None]:
    return tool_context.invocation_id, tool_context.function_call_id


def _text(content: types.Content) -> str:
    return "".join(part.text for part in content.parts or [] if part.text and not part.thought)


def _model_content(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def _denial_reason(error: Exception) -> str | None:
    """Return the reason if the gateway denied the call; None for any other error, such as the upstream's."""
    if not isinstance(error, errors.APIError) or error.code != 403 or not isinstance(error.details, dict):
        return None
    details = error.details.get("error", {}).get("details") or []
    denied = any(isinstance(detail, dict) and detail.get("reason") == "POLICY_DENIED" for detail in details)
    return error.message or "" if denied else None
