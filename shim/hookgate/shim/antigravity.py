"""Hooks for Antigravity's Python SDK: `LocalAgentConfig(…, hooks=HookgateHooks("http://127.0.0.1:8787").hooks)`.

Antigravity does not show its hooks what its own tools return, and hooks can neither change a result nor add
context. With a gateway, the hooks therefore report only what model calls do not reveal: the session, its
compactions and its questions. The gateway derives turns and tools from the agent's calls, where it can
change all of them. With an engine, the hooks report all events. Parameters of Antigravity's own types are
annotated as Any, because it is installed in an environment of its own.
"""

import asyncio
import json
import logging
import os
from typing import Any, Self

from google.antigravity import hooks as sdk  # type: ignore[import-untyped]  # see above
from google.antigravity import types

from hookgate.shim.decisions import Blocked, Decision, Json, ShimError, Stopped, tool_error
from hookgate.shim.sessions import Session, Turn
from hookgate.shim.shim import Shim
from hookgate.shim.tools import Tool
from hookgate.shim.transports import without_session

log = logging.getLogger("hookgate.shim")

_NOT_BEGUN = "The session has not begun."
_NO_REASON = "A hook denied the answer. Answer again."
_NOT_APPLIED = "%s cannot be applied in this agent's process; a gateway can apply it"


class _Uncopied:
    """What exists once, although Antigravity copies an agent's configuration with all of its hooks."""

    def __deepcopy__(self, _: object) -> Self:
        return self


class HookgateHooks(_Uncopied):
    """One session of an Antigravity agent. It ends, and the shim is closed, when the agent is."""

    def __init__(self, at: Shim | str, key: str | None = None, session_id: str | None = None) -> None:
        """Connect to a gateway's base URL or a shim, which is closed with the session.

        The default for `key` is the environment variable that Antigravity reads. A shim has its own key.
        Raises ValueError for a session ID that a gateway does not accept.
        """
        default_key = key or os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY")
        self._shim = Shim(at, default_key) if isinstance(at, str) else at
        self._session = self._shim.session(session_id, context="delivered")
        self._begins = asyncio.Lock()
        self._refusal: str | None = _NOT_BEGUN
        turn_hooks = [] if self._shim.url else _TurnHooks(self._session).hooks
        self.hooks: list[Any] = [
            sdk.on_session_start(self._start),
            sdk.pre_turn(self._admit),
            *turn_hooks,
            sdk.on_compaction(self._compact),
            sdk.on_interaction(self._interact),
            sdk.on_session_end(self._end),
        ]
        """The hooks for the agent's configuration."""

    @property
    def base_url(self) -> str | None:
        """The base URL for the agent's model endpoints, in this session. None without a gateway."""
        url = self._shim.url
        return None if url is None else f"{without_session(url)}/s/{self._session.session_id}"

    async def _start(self) -> None:
        """Fire SessionStart once. While it runs, Antigravity begins a turn, which waits here for its end."""
        async with self._begins:
            if self._refusal is not _NOT_BEGUN:
                return
            try:
                await self._session.__aenter__()  # _end() exits it
                self._refusal = None
            except ShimError as error:
                self._refusal = str(error)

    async def _admit(self, data: Any) -> Any:
        """Refuse the turns of a refused session, because Antigravity cannot refuse the session itself."""
        await self._start()
        return types.HookResult(allow=self._refusal is None, message=self._refusal or "")

    async def _compact(self, data: Any) -> None:
        """Fire PreCompress. Antigravity calls this hook when it has compressed the context."""
        await self._session.compress()

    async def _interact(self, data: Any) -> None:
        """Fire Notification for the agent's questions, and leave the answer to other hooks."""
        questions = [entry.model_dump(mode="json") for entry in data.questions]
        message = "\n".join(entry.question for entry in data.questions)
        await self._session.notify("AskQuestion", message, {"questions": questions})

    async def _end(self) -> None:
        """Fire SessionEnd, and close the shim."""
        try:
            await self._session.__aexit__(None, None, None)
        finally:
            await self._shim.aclose()


class _TurnHooks(_Uncopied):
    """The turns and tools of an agent whose hooks run in its own process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn: Turn | None = None
        self._tools: dict[str, Tool] = {}
        self.hooks = [
            sdk.pre_turn(self._begin),
            sdk.pre_tool_call_decide(self._before_tool),
            sdk.post_tool_call(self._after_tool),
            sdk.on_tool_error(self._after_failure),
            sdk.stop(self._answer),
        ]

    async def _begin(self, data: Any) -> Any:
        """Fire BeforeAgent."""
        self._turn = None
        self._tools.clear()
        try:
            self._turn = await self._session.begin(_text(data))
        except ShimError as error:
            return types.HookResult(allow=False, message=str(error))
        if self._turn.context or self._session.context:
            log.warning(_NOT_APPLIED, "context that a hook adds to a turn")
        return types.HookResult(allow=True)

    async def _before_tool(self, data: Any) -> Any:
        """Fire BeforeTool. Returns the arguments that hooks changed."""
        run = self._session.tool(data.name, dict(data.args))
        try:
            await run.__aenter__()  # another hook reports the result
        except Stopped as stopped:
            return types.HookResult(allow=False, message=tool_error(stopped.reason))
        except ShimError as error:
            return types.HookResult(allow=False, message=str(error))
        self._tools[data.id] = run
        return types.HookResult(allow=True, modified_args=_changes(data.args, run.args) or None)

    async def _after_tool(self, data: Any) -> None:
        """Fire AfterTool. Antigravity only shows results; a stop refuses the tools that follow."""
        run = self._tools.pop(data.id, None)
        if run is None:
            return
        try:
            visible = await run.result(data.result)
        except Blocked:
            return
        if visible is not data.result:
            log.warning(_NOT_APPLIED, f"a hook's change to the result of {data.name}")

    async def _after_failure(self, data: Any) -> str | None:
        """Fire AfterTool for a failed tool. Returns its error message if hooks changed it."""
        run = self._tools.pop(data.call_id, None)
        if run is None:
            return None
        try:
            return await run.failed(data)
        except Stopped as stopped:
            return stopped.reason

    async def _answer(self, data: Any) -> Any:
        """Fire AfterAgent. If hooks deny the answer, the model answers again, as often as the shim allows."""
        turn, decision = self._turn, Decision("AfterAgent")
        if turn is not None and not data.error_message:
            try:
                decision = await turn.answer(data.response_text)
            except Stopped:
                turn = None
        if turn is None or not decision.denied or turn.is_last:
            return types.StopHookResult(decision=types.StopDecision.ALLOW_STOP)
        return types.StopHookResult(
            decision=types.StopDecision.CONTINUE, reason=decision.reason or _NO_REASON
        )


def _text(content: Any) -> str:
    """Return a prompt as text, with slash commands as the user types them and without media."""
    if isinstance(content, types.SlashCommand):
        return f"/{content.name.value}"
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_text, content))) if isinstance(content, list | tuple) else ""


def _changes(args: Json, new: Json) -> Json:
    """Return the arguments that differ as JSON, where `true` is not 1 as it is in Python."""
    return {
        name: value for name, value in new.items() if name not in args or _json(args[name]) != _json(value)
    }


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
