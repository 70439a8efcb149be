"""The events of a model call: BeforeModel, BeforeToolSelection and AfterModel."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, WithJsonSchema

from hookgate.hooks.events.base import (
    Event,
    HookInput,
    HookOutput,
    SharedValue,
    Specific,
    SpecificOutput,
    Unchecked,
    object_in,
    with_hook_path,
)
from hookgate.hooks.settings.configs import StreamMode
from hookgate.translator import (
    VIEWS,
    ShownRequest,
    TranslatorError,
    apply_response,
    check_request,
    check_response,
    declared_names,
    function_declarations,
    hosted_kinds,
    read_tool_config,
    read_tools,
    show_request,
    show_response,
    show_tool_config,
    synthetic_response,
    write_tool_config,
)
from hookgate.translator.fields import JsonObject, camel, is_larger, read, read_list, read_object, same
from hookgate.translator.request import EDITED_SECTIONS, requires_json
from hookgate.translator.response import is_json_answer
from hookgate.translator.streaming.edits import LONG_EDIT


class ModelEventInput(HookInput):
    """The input fields that all model events share: the request."""

    llm_request: JsonObject | None = None
    """The request: `model`, `messages`, `config`, `toolConfig`. With `"view": "raw"`, also `contents`,
    `generationConfig`, `systemInstruction` and the read-only `tools`. With `"view": "body"`, only `model`,
    the whole REST body under `raw`, and in BeforeModel the rest of Code Assist's envelope under `beside`.
    In AfterModel, the request always has the default view. If an interaction continues an earlier one, whose
    turns are stored at Google, `previousInteractionId` names the earlier one, and `history` is `known` if all
    of its turns have passed the gateway's hooks, and `unknown` otherwise. If they have, `previousRevision` is
    the policy revision at that time, and `previousMessages` has the turns if the gateway keeps them. If a
    call uses cached contents, `cachedContent` names them, and `history` is `unknown`."""

    @property
    def request(self) -> JsonObject:
        """The request as `model`, `messages`, `config`, even if only the raw `contents` were sent."""
        request = self.llm_request or {}
        if "messages" in request:
            return request
        raw = request.get("raw")
        body = raw if isinstance(raw, dict) else request
        return show_request(request.get("model", ""), body) if "contents" in body else request


class BeforeModelInput(ModelEventInput):
    """Fires before a request goes to the model.

    Fired by the gateway. A matcher is ignored.
    """

    hook_event_name: Literal["BeforeModel"]


def _none_if_empty(llm_response: Any) -> Any:
    """Return None for an object without any answer, so that the model is called."""
    empty = isinstance(llm_response, dict) and all(value in (None, []) for value in llm_response.values())
    return None if empty else llm_response


class BeforeModelSpecific(SpecificOutput):
    """The fields of hookSpecificOutput for BeforeModel."""

    llm_request: Unchecked = None
    """Edits to the request: only the fields given here change. Besides those of the input, `modelArmorConfig`
    sets the templates with which Vertex AI lets Model Armor judge the call."""

    llm_response: Annotated[Unchecked, BeforeValidator(_none_if_empty)] = None
    """An answer to use instead of calling the model. `{"text": "…"}` is enough; a whole REST body
    under `raw` is used unchanged. Parts are strings, `{text}` or parts of the API such as
    `{functionCall}`. An empty object is not an answer."""


class BeforeModelOutput(HookOutput):
    """The hook may deny the call, edit the request, or answer in place of the model.

    - `deny`: the call is denied with `reason`.
    - `continue: false`: the agent receives `stopReason` as the model's final answer, and stops.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: lower the temperature.

        {"hookSpecificOutput": {"llm_request": {"config": {"temperature": 0.2}}}}
    """

    hook_specific_output: Specific[BeforeModelSpecific] = None


class BeforeToolSelectionInput(ModelEventInput):
    """Fires after BeforeModel, before the model may choose tools.

    Fired by the gateway. A matcher is ignored.
    """

    hook_event_name: Literal["BeforeToolSelection"]

    available_tools: list[Any] | None = None
    """The function declarations of the request, unchanged. `llm_request.tools` has the tools that contain
    them, and those that the API runs itself."""

    tool_config: JsonObject | None = None
    """The request's current selection: `mode`, `allowed_function_names`."""

    @property
    def selection(self) -> JsonObject:
        """`mode` and `allowedFunctionNames` of `tool_config` or `llm_request.toolConfig`, flat or nested."""
        config = self.tool_config or read_object(self.request, "toolConfig")
        config = read_object(config, "functionCallingConfig") or config
        keys = ("mode", "allowedFunctionNames")
        return {key: value for key in keys if (value := read(config, key)) is not None}


class BeforeToolSelectionSpecific(SpecificOutput):
    """The fields of hookSpecificOutput for BeforeToolSelection."""

    spellings: ClassVar[dict[str, str]] = {"tool_config": "toolConfig"}

    toolConfig: Unchecked = None  # noqa: N815  # tool_config is its alias
    """`mode` (AUTO, ANY, NONE, VALIDATED) and `allowedFunctionNames`, flat or in `functionCallingConfig`."""

    tool_config: Unchecked = None
    """Alias of `toolConfig`, in snake_case."""

    tools: Annotated[Any, WithJsonSchema({"type": "array"})] = None
    """Names of functions and of kinds of tools that the API runs, such as `googleSearch`; or declarations or
    tools. All others are removed. A tool that the API runs and that has settings, such as one of several
    servers in `mcpServers`, is kept only as it is in the request."""


class BeforeToolSelectionOutput(HookOutput):
    """The hook may limit the tools that the model can choose.

    A plain comma-separated list on stdout, such as `read_file,write_file`, selects mode ANY with these names.

    - `deny`: the call is denied with `reason`.
    - `continue: false`: the agent receives `stopReason` as the model's final answer, and stops.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: allow one tool only.

        {"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}}}
    """

    hook_specific_output: Specific[BeforeToolSelectionSpecific] = None


class AfterModelInput(ModelEventInput):
    """Fires after the model has answered: once for an answer that is not streamed. For a streamed answer, the
    hook's `stream` setting determines when it runs.

    Fired by the gateway. A matcher is ignored.
    """

    hook_event_name: Literal["AfterModel"]

    llm_response: JsonObject | None = None
    """The answer: `text`, `candidates`, `usageMetadata`. With `"view": "raw"` or `"body"`, also its REST
    body under `raw`."""

    @property
    def text(self) -> str:
        """The answer's text: `text`, or the joined parts of the first candidate."""
        response = self.llm_response or {}
        if isinstance(text := response.get("text"), str):
            return text
        candidates = [item for item in read_list(response, "candidates") if isinstance(item, dict)]
        content = read_object(candidates[0], "content") if candidates else {}
        return "".join(map(_part_text, read_list(content, "parts")))


def _part_text(part: Any) -> str:
    """Return the text of a part, which may be a string or `{"text": …}`, or an empty string."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


class AfterModelSpecific(SpecificOutput):
    """The fields of hookSpecificOutput for AfterModel."""

    llm_response: Unchecked = None
    """Edits to the answer: only the fields given here change. `text` alone is enough; empty `parts` remove
    the text."""

    redacted: bool | None = None
    """`true` marks the record of the call: its receipt lists the hook under `redacted`."""


class AfterModelOutput(HookOutput):
    """The hook may edit or withhold the answer.

    - `deny`: the answer is withheld; a stream that has begun ends with `reason`.
    - `continue: false`: the answer ends with `stopReason`, and the agent stops.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: replace the text.

        {"hookSpecificOutput": {"llm_response": {"text": "The key is [REDACTED]."}, "redacted": true}}
    """

    hook_specific_output: Specific[AfterModelSpecific] = None


class _RequestViews:
    """A cache of the views of one request."""

    def __init__(self, model: str, body: JsonObject) -> None:
        self._model, self._body = model, body
        self._views: dict[str, ShownRequest] = {}

    def get(self, view: str) -> ShownRequest:
        if view not in self._views:
            self._views[view] = VIEWS[view](self._model, self._body)
        return self._views[view]


@dataclass(frozen=True)
class BeforeModel(Event):
    """Fires before a request goes to the model.

    Input: `llm_request` {model, messages, config, toolConfig?}, in the view that the hook has configured.
    Output: `decision` "deny" denies the call with `reason`; `continue` false stops the agent with
    `stopReason`; `hookSpecificOutput.llm_request` edits the request (only the fields given change);
    `hookSpecificOutput.llm_response` is used as the answer, and the model is not called.
    """

    name: ClassVar[str] = "BeforeModel"
    model: str
    body: JsonObject
    beside: JsonObject = field(default_factory=dict)
    """The other fields of Code Assist's envelope, which the view `body` includes."""
    tools_known: bool = True
    """Whether the body has all tools of the request. The stable form that an agent reports has none."""

    @cached_property
    def _views(self) -> "_RequestViews":
        return _RequestViews(self.model, self.body)

    def shown_request(self) -> JsonObject:
        """Return a new LLMRequest in the default view."""
        return self._views.get("text").view()

    def fields(self, view: str) -> JsonObject:
        shown = self._views.get(view).view()
        return {"llm_request": {**shown, "beside": self.beside} if self._includes_beside(view) else shown}

    def _includes_beside(self, view: str) -> bool:
        return view == "body" and bool(self.beside)

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return tuple(declared_names(self.body)) if name == "tools" else self.model if name == "model" else ""

    def extract_edit(self, specific: JsonObject, view: str) -> JsonObject:
        if specific.get("llm_response") is not None:
            with_hook_path("llm_response", synthetic_response, specific["llm_response"])
        edit = object_in(specific, "llm_request")
        return changed_part(self._views.get(view).view(), edit, REQUEST_EDITS) if edit else {}

    def edited(self, edit: JsonObject, view: str) -> Self:
        model, body = with_hook_path("llm_request", self._views.get(view).edited, edit)
        if not self.tools_known and edit.get("toolConfig") is not None:
            body = with_hook_path("llm_request", write_tool_config, body, edit["toolConfig"])
        if not _RAW.isdisjoint(edit):  # raw contents are used unchanged, so they have not been checked
            with_hook_path("llm_request", check_request, body)
        beside = (
            object_in(edit, "beside") if self._includes_beside(view) and "beside" in edit else self.beside
        )
        return replace(self, model=model, body=body, beside=beside)

    def takes_long_to_edit(self, edit: JsonObject) -> bool:
        return "messages" in edit and is_larger([self.body, edit], LONG_EDIT)


@dataclass(frozen=True)
class BeforeToolSelection(Event):
    """Fires after BeforeModel, before the model may choose tools.

    Input: `llm_request` with `tools`, `available_tools` (the declarations of functions), `tool_config`.
    Output: `hookSpecificOutput.toolConfig` {mode, allowedFunctionNames}, flat or nested, and
    `hookSpecificOutput.tools`, a list that filters the tools. Plain `name,name` on stdout means
    mode ANY with those names. merge.py combines the selections of several hooks.
    """

    name: ClassVar[str] = "BeforeToolSelection"
    model: str
    body: JsonObject

    def fields(self, view: str) -> JsonObject:
        shown = show_tool_config(self.body)
        request, tools = VIEWS[view](self.model, self.body).view(), read(self.body, "tools")
        if tools is not None and "raw" not in request:
            request["tools"] = tools
        return {
            "llm_request": request,
            "available_tools": function_declarations(self.body),
            "tool_config": shown and _to_snake_case(shown),
        }

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return tuple(declared_names(self.body)) if name == "tools" else self.model if name == "model" else ""

    def extract_edit(self, specific: JsonObject, view: str) -> JsonObject:
        if (selection := read(specific, "toolConfig")) is not None:
            read_tool_config(selection)
        if specific.get("tools") is not None:
            read_tools(specific["tools"])
        return {}  # selections are united, not chained, so hooks do not see each other's

    def undeclared_names(self, specific: JsonObject) -> list[str]:
        """Return the tools that an output names although the request does not declare them."""
        selection = read_tool_config(read(specific, "toolConfig") or {})
        kept = [each for each in read_tools(specific.get("tools") or []) if isinstance(each, str)]
        names = [*selection.get("allowedFunctionNames", ()), *kept]
        declared, kinds = set(declared_names(self.body)), set(hosted_kinds(self.body))
        unknown = [name for name in dict.fromkeys(names) if name not in declared and camel(name) not in kinds]
        return unknown if declared else []

    def edit_warning(self, specific: JsonObject, edit: JsonObject, view: str) -> str:
        names = self.undeclared_names(specific)
        selected = read_tool_config(read(specific, "toolConfig") or {}).get("allowedFunctionNames")
        if not names or not selected or not set(selected) <= set(names):
            return ""
        shown = ", ".join(map(repr, names[:5]))
        return f"selects only tools that the request does not declare ({shown}), so the model can call none"


# Not frozen, because one is created for each event of a stream, and frozen ones are slower.
@dataclass(eq=False, slots=True)
class AfterModel(Event):
    """Fires for a whole answer, or for the parts of a streamed one that the hook's `stream` selects.

    Input: `llm_request` as hooks before the call left it, `llm_response` {text?, candidates, usageMetadata?}.
    Output: `hookSpecificOutput.llm_response` edits the answer (only the fields given change); `decision`
    "deny" replaces it with `reason`; `continue` false stops the agent with `stopReason`.
    """

    name: ClassVar[str] = "AfterModel"
    llm_request: SharedValue
    body: JsonObject
    model: str = ""
    stream: StreamMode | None = None

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return self.model if name == "model" else super().subject_property(name)

    def fields(self, view: str) -> JsonObject:
        # `_answer_view` alone would do, but is one more call for each event of a stream.
        shown = show_response(self.body) if view == "text" else self._answer_view(view)
        return {"llm_request": self.llm_request, "llm_response": shown}

    def extract_edit(self, specific: JsonObject, view: str) -> JsonObject:
        edit = object_in(specific, "llm_response")
        return changed_part(self._answer_view(view), edit, RESPONSE_EDITS) if edit else {}

    def edited(self, edit: JsonObject, view: str) -> Self:
        body = self.body
        if view != "text" and "raw" in edit:
            body = with_hook_path("llm_response.raw", check_response, object_in(edit, "raw"))
        return replace(self, body=with_hook_path("llm_response", apply_response, body, edit))

    def takes_long_to_edit(self, edit: JsonObject) -> bool:
        return is_larger([self.body, edit], LONG_EDIT)

    def edit_warning(self, specific: JsonObject, edit: JsonObject, view: str) -> str:
        if not edit or self.stream not in (None, "complete") or not self._requires_json():
            return ""
        try:
            edited = self.edited(edit, view).body
        except TranslatorError:  # the edit does not fit, and is not applied
            return ""
        if not is_json_answer(self.body) or is_json_answer(edited):
            return ""
        return (
            "has edited an answer that the client requires as JSON so that it is no longer JSON; "
            "the gateway refuses such an answer"
        )

    def _requires_json(self) -> bool:
        return requires_json(read_object(self.llm_request.value, "config"))

    def _answer_view(self, view: str) -> JsonObject:
        """Return a view of the answer. All views but `text` include the REST body, with its calls."""
        shown = show_response(self.body)
        return shown if view == "text" else {**shown, "raw": self.body}


_RAW = frozenset({"contents", "systemInstruction"})
_CONFIG_KEYS = ("config", "generationConfig")

REQUEST_EDITS = frozenset({"model", "messages", "raw", "beside", *EDITED_SECTIONS})
"""The keys of `llm_request` that an edit may contain. Others have no effect."""

RESPONSE_EDITS = frozenset({"text", "candidate", "candidates", "usageMetadata", "raw"})
"""The keys of `llm_response` that an edit or a synthetic answer may contain. Others have no effect."""


def changed_part(shown: JsonObject, edit: JsonObject, editable: frozenset[str]) -> JsonObject:
    """Return the `editable` keys in which an edit differs from the hook's input.

    `config` is compared key by key.
    """
    changed: JsonObject = {}
    for key, value in edit.items():
        if key not in editable:
            continue
        if key in _CONFIG_KEYS and isinstance(value, dict):
            current = shown.get("config", {})
            settings = {
                name: item for name, item in value.items() if not same(item, current.get(camel(name)))
            }
            changed.update({key: settings} if settings else {})
        elif value is not None and not same(value, shown.get(key)):
            changed[key] = value
    return changed


def _to_snake_case(shown: JsonObject) -> JsonObject:
    names = {"mode": "mode", "allowedFunctionNames": "allowed_function_names"}
    return {names[key]: value for key, value in shown.items() if key in names}
