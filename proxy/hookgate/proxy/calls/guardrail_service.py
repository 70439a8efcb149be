"""The guardrail service: answers other gateways that call LiteLLM's generic guardrail API.

Requests pass the hooks of BeforeModel and BeforeToolSelection, answers those of AfterModel and BeforeTool.
What a hook decides and this API cannot express is a denial.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool, BeforeToolSelection, Engine, Verdict
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.session import CallState
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.judge import DENIED, STOPPED, Judge
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.logs import note_session
from hookgate.proxy.routes.table import GUARDRAIL, session_name_in_body
from hookgate.translator import BodyError, callable_names
from hookgate.translator.fields import JsonObject, camel, read_list, same
from hookgate.translator.strictjson import dumps, encode_answer, loads

_CANNOT_APPLY = "A hook changes {what} of this call, which this gateway cannot pass on to the one that asks."
_SYNTHETIC = "A hook answers this call itself, which the gateway that asks cannot do."
_NO_TOOLS = "None of the tools of this call is allowed here."
_NOT_JSON = "The arguments of the tool call {name} are not a JSON object, so hooks cannot judge them."


class _Check(BaseModel):
    """What a gateway asks about. Fields that are not read are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    input_type: Literal["request", "response"]
    texts: list[str] | None = None
    images: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    structured_messages: list[dict[str, Any]] | None = None
    model: str | None = None
    litellm_trace_id: str | None = None


class _Blocked(Exception):  # noqa: N818  # a decision, not an error
    """The call is denied. The message is the reason."""


class GuardrailService:
    """Answers the checks of other gateways."""

    def __init__(self, services: GatewayServices, admit: Callable[[Call], None]) -> None:
        """`admit` raises ApiError for a caller that may not ask now."""
        self._services, self._admit = services, admit

    async def run(self, call: Call, engine: Engine) -> web.Response:
        """Answer one check. Raises ApiError if it is invalid, or if the caller may not ask."""
        self._admit(call)
        body = await call.read_body()
        for observer in call.observers:
            observer.on_request(body)
        check = await call.steps.run(_read, body)
        state = CallState(steps=call.steps, operation=GUARDRAIL, model=check.model or "")
        name = call.named_session or session_name_in_body(check.litellm_trace_id)
        session = call.caller.in_session(name or call.caller.conversation_id(check.texts or []), state)
        note_session(session.session_id)
        call.record.note_session(session)
        is_request = check.input_type == "request"
        call.record.event = BeforeModel.name if is_request else AfterModel.name
        judge = Judge(engine, call.record, session)
        try:
            answer = await (_judge_request if is_request else _judge_answer)(judge, check)
        except _Blocked as blocked:
            answer = {"action": "BLOCKED", "blocked_reason": str(blocked)}
        for observer in call.observers:
            observer.on_event_output(answer)
        await self._services.record_event(call.record)
        return web.Response(body=encode_answer(answer), content_type="application/json")


def _read(body: JsonObject) -> _Check:
    try:
        return _Check.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ApiError(
            400, f"Invalid check of a guardrail: {place}: {first['msg']}", "EVENT_REFUSED"
        ) from None


# ---- requests


async def _judge_request(judge: Judge, check: _Check) -> JsonObject:
    """Return the answer to a check of a request. Raises _Blocked."""
    steps, texts, model = judge.session.call_state.steps, check.texts or [], check.model or ""
    body = await steps.run(_request, check)
    outcome = await judge.fire(BeforeModel(model, body))
    _raise_if_blocked(outcome.verdict)
    new = outcome.event.body
    if outcome.event.model != model:
        raise _Blocked(_CANNOT_APPLY.format(what="the model"))
    selected = await judge.fire(BeforeToolSelection(model, new))
    _raise_if_blocked(selected.verdict)
    if selected.verdict.selects_tools:
        new = await steps.run(selected.verdict.apply_selection, new)
    if new is body:
        return {"action": "NONE"}
    for name in body.keys() | new.keys():
        if name not in ("contents", "tools", "toolConfig") and not same(body.get(name), new.get(name)):
            raise _Blocked(_CANNOT_APPLY.format(what=name))
    new_texts = _new_texts(read_list(body, "contents"), read_list(new, "contents"), len(texts))
    return _answer(check, new_texts, _new_tools(check, new))


def _request(check: _Check) -> JsonObject:
    """Return the request to judge: one turn of what cannot be edited, and one for each text."""
    rest = _rest(check)
    texts = check.texts or []
    turns = [_turn([{"text": text}], role) for text, role in zip(texts, _roles(check), strict=True)]
    tools = [_tool(tool) for tool in check.tools or []]
    contents = [*([rest] if rest else []), *turns]
    return {"contents": contents, **({"tools": tools} if tools else {})}


def _turn(parts: Sequence[JsonObject], role: str = "user") -> JsonObject:
    return {"role": role, "parts": list(parts)}


def _roles(check: _Check) -> list[str]:
    """Return who has written each text, as the messages say; the user, if the texts are not those of them."""
    roles: list[str] = []
    for message in check.structured_messages or []:
        content, role = message.get("content"), "model" if message.get("role") == "assistant" else "user"
        items = content if isinstance(content, list) else [{"text": content}]
        roles += [role for item in items if isinstance(item, dict) and isinstance(item.get("text"), str)]
    count = len(check.texts or [])
    return roles if len(roles) == count else ["user"] * count


def _rest(check: _Check) -> JsonObject | None:
    """Return a turn with the images, and the calls that the model has made; None if there are none."""
    images = [{"fileData": {"fileUri": image}} for image in check.images or []]
    calls = [_call_part(_call(call)) for call in check.tool_calls or []]
    return _turn([*images, *calls]) if images or calls else None


def _new_texts(shown: Sequence[JsonObject], turns: Sequence[Any], count: int) -> list[str]:
    """Return the texts of the last `count` turns after edits. Raises _Blocked if anything else was edited."""
    first = len(shown) - count
    if len(turns) != len(shown) or not same(list(turns[:first]), list(shown[:first])):
        raise _Blocked(_CANNOT_APPLY.format(what="the turns"))
    return [_text(read_list(turn, "parts") if isinstance(turn, dict) else []) for turn in turns[first:]]


def _text(parts: Sequence[Any]) -> str:
    """Return the text of the parts of a turn. Raises _Blocked if there is anything else in them."""
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise _Blocked(_CANNOT_APPLY.format(what="the turns"))
    return "".join(part["text"] for part in parts)


# ---- tools


def _tool(tool: Mapping[str, Any]) -> JsonObject:
    """Return a tool of OpenAI's as one of generateContent. One without a function is hosted elsewhere."""
    function = tool.get("function")
    if not isinstance(function, dict):
        kind = camel(str(tool.get("type") or "unknown"))
        return {kind: {name: value for name, value in tool.items() if name != "type"}}
    declared = {key: function[key] for key in ("name", "description") if key in function}
    if "parameters" in function:
        declared["parametersJsonSchema"] = function["parameters"]
    return {"functionDeclarations": [declared]}


def _new_tools(check: _Check, body: JsonObject) -> list[JsonObject] | None:
    """Return the tools after edits and selections, or None if they are the same. Raises _Blocked."""
    given, allowed = check.tools or [], callable_names(body)
    new = {_key(tool): tool for tool in read_list(body, "tools") if isinstance(tool, dict)}
    declared = {key: each for tool in new.values() if (each := _function(tool)) and (key := each.get("name"))}
    kept: list[JsonObject] = []
    for tool in given:
        shown = _tool(tool)
        function = _function(shown)
        if function is None:
            kept += [tool] if _key(shown) in new else []
        elif (name := function.get("name")) in allowed:
            if not same(function, declared.get(name)):
                raise _Blocked(_CANNOT_APPLY.format(what="the declarations of tools"))
            kept.append(tool)
    if given and not kept:
        raise _Blocked(_NO_TOOLS)
    return None if len(kept) == len(given) else kept


def _function(tool: JsonObject) -> JsonObject | None:
    """Return the declaration in a tool, or None if it has none."""
    [function, *_] = read_list(tool, "functionDeclarations") or [None]
    return function if isinstance(function, dict) else None


def _key(tool: JsonObject) -> bytes:
    return dumps(tool)


def _call(call: Mapping[str, Any]) -> JsonObject:
    """Return the name and the arguments of a call; None if these are not a JSON object."""
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    text = function.get("arguments")
    try:
        arguments = loads(text.encode()) if isinstance(text, str) and text else text or {}
    except (BodyError, UnicodeEncodeError):
        arguments = None
    name = str(function.get("name") or "")
    return {"name": name, "args": arguments if isinstance(arguments, dict) else None, "text": text}


def _call_part(call: JsonObject) -> JsonObject:
    """Return the part of a turn with a call; arguments that are no object are shown as a text."""
    arguments = {"arguments": call["text"]} if call["args"] is None else call["args"]
    return {"functionCall": {"name": call["name"], "args": arguments}}


# ---- answers


async def _judge_answer(judge: Judge, check: _Check) -> JsonObject:
    """Return the answer to a check of an answer. Raises _Blocked."""
    texts, calls = check.texts or [], [_call(call) for call in check.tool_calls or []]
    images = [{"fileData": {"fileUri": image}} for image in check.images or []]
    rest = [*map(_call_part, calls), *images]
    parts = [*({"text": text} for text in texts), *rest]
    body = {"candidates": [{"content": {"role": "model", "parts": parts}}]}
    outcome = await judge.fire(AfterModel(SharedValue({}), body, check.model or ""))
    _raise_if_blocked(outcome.verdict)
    for call in calls if judge.listens_to(BeforeTool.name) else ():
        await judge.session.call_state.steps.pause()
        await _judge_call(judge, call)
    if outcome.event.body is body:
        return {"action": "NONE"}
    return _answer(check, _answered_texts(len(texts), rest, outcome.event.body), None)


async def _judge_call(judge: Judge, call: JsonObject) -> None:
    """Run BeforeTool for a call in an answer. Raises _Blocked."""
    if call["args"] is None:
        raise _Blocked(_NOT_JSON.format(name=call["name"]))
    outcome = await judge.fire(BeforeTool(call["name"], call["args"]))
    _raise_if_blocked(outcome.verdict)
    if not same(outcome.event.tool_input, call["args"]):
        raise _Blocked(_CANNOT_APPLY.format(what="the arguments of a tool"))


def _answered_texts(count: int, rest: Sequence[JsonObject], body: JsonObject) -> list[str]:
    """Return the texts after edits. Raises _Blocked if anything else was edited."""
    [candidate, *more] = read_list(body, "candidates") or [{}]
    content = candidate.get("content") if isinstance(candidate, dict) else None
    parts = read_list(content, "parts") if isinstance(content, dict) else []
    if more or len(parts) != count + len(rest) or not same(parts[count:], list(rest)):
        raise _Blocked(_CANNOT_APPLY.format(what="the parts"))
    return [_text([part]) for part in parts[:count]]


# ---- decisions


def _raise_if_blocked(verdict: Verdict) -> None:
    if verdict.stop:
        raise _Blocked(verdict.reason or STOPPED)
    if verdict.synthetic:
        raise _Blocked(_SYNTHETIC)
    if verdict.denied:
        raise _Blocked(verdict.reason or DENIED)


def _answer(check: _Check, texts: list[str], tools: list[JsonObject] | None) -> JsonObject:
    if texts == (check.texts or []) and tools is None:
        return {"action": "NONE"}
    return {
        "action": "GUARDRAIL_INTERVENED",
        "texts": texts,
        **({"tools": tools} if tools is not None else {}),
    }
