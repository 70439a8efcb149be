"""The model events: what each shows a hook, and what a hook may answer.

An event holds a parsed body. `fields()` is what a hook is shown beside the base fields, `changed()` cuts
an output down to what it edits, `edited()` gives the event after that edit. All are pure. The input and
output fields are those of the hook contract, in every spelling of its documents.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

from hookgate.hooks.document import Encoded
from hookgate.hooks.events.base import Event, named, object_in
from hookgate.hooks.settings.configs import StreamMode
from hookgate.hooks.settings.matching import Subject
from hookgate.translator import (
    VIEWS,
    ShownRequest,
    apply_response,
    check_request,
    check_response,
    declared_names,
    read_tool_config,
    read_tools,
    show_response,
    show_tool_config,
    synthetic_response,
)
from hookgate.translator.fields import JsonObject, camel, read, read_list, same


class _Shown:
    """One request through each of the views that its hooks ask for, each read once."""

    def __init__(self, model: str, body: JsonObject) -> None:
        self._model, self._body = model, body
        self._views: dict[str, ShownRequest] = {}

    def through(self, view: str) -> ShownRequest:
        if view not in self._views:
            self._views[view] = VIEWS[view](self._model, self._body)
        return self._views[view]


@dataclass(frozen=True)
class BeforeModel(Event):
    """Fires before a request goes to the model.

    Input: `llm_request` {model, messages, config, toolConfig?}, in the view the hook asks for.
    Output: `decision` "deny" refuses the call with `reason`; `continue` false stops the agent with
    `stopReason`; `hookSpecificOutput.llm_request` edits the request (partial: only what it names);
    `hookSpecificOutput.llm_response` answers in the model's place, which is then not called.
    """

    name: ClassVar[str] = "BeforeModel"
    model: str
    body: JsonObject
    beside: JsonObject = field(default_factory=dict)
    """What stands beside the request in its envelope; the view `body` shows it."""

    @cached_property
    def _shown(self) -> "_Shown":
        return _Shown(self.model, self.body)

    def fields(self, view: str) -> JsonObject:
        shown = self._shown.through(view).view()
        return {"llm_request": {**shown, "beside": self.beside} if self._shows_beside(view) else shown}

    def _shows_beside(self, view: str) -> bool:
        return view == "body" and bool(self.beside)

    def subject(self) -> Subject:
        return Subject(model=self.model, tools=tuple(declared_names(self.body)))

    def changed(self, specific: JsonObject, view: str) -> JsonObject:
        if specific.get("llm_response") is not None:
            named("llm_response", synthetic_response, specific["llm_response"])
        edit = object_in(specific, "llm_request")
        return changed_part(self._shown.through(view).view(), edit) if edit else {}

    def edited(self, edit: JsonObject, view: str) -> Self:
        model, body = named("llm_request", self._shown.through(view).edited, edit)
        if not _RAW.isdisjoint(edit):
            named("llm_request", check_request, body)  # raw contents are the hook's own, word for word
        beside = object_in(edit, "beside") if self._shows_beside(view) and "beside" in edit else self.beside
        return replace(self, model=model, body=body, beside=beside)


@dataclass(frozen=True)
class BeforeToolSelection(Event):
    """Fires after BeforeModel, before the model may choose tools.

    Input: `llm_request`, `available_tools` (the request's tools as they are), `tool_config`.
    Output: `hookSpecificOutput.toolConfig` {mode, allowedFunctionNames}, flat or nested, and
    `hookSpecificOutput.tools`, a list that filters the declarations. Plain `name,name` on stdout means
    mode ANY with those names. Selections of several hooks are united, and NONE wins.
    """

    name: ClassVar[str] = "BeforeToolSelection"
    model: str
    body: JsonObject

    def fields(self, view: str) -> JsonObject:
        shown = show_tool_config(self.body)
        return {
            "llm_request": VIEWS[view](self.model, self.body).view(),
            "available_tools": read_list(self.body, "tools"),
            "tool_config": shown and _in_snake_case(shown),
        }

    def subject(self) -> Subject:
        return Subject(model=self.model, tools=tuple(declared_names(self.body)))

    def changed(self, specific: JsonObject, view: str) -> JsonObject:
        if (selection := read(specific, "toolConfig")) is not None:
            read_tool_config(selection)
        if specific.get("tools") is not None:
            read_tools(specific["tools"])
        return {}  # selections are united, not chained: no hook has to see another's


@dataclass(frozen=True)
class AfterModel(Event):
    """Fires for a whole answer, or for each event of a streamed one.

    Input: `llm_request` as it was sent, `llm_response` {text?, candidates, usageMetadata?}.
    Output: `hookSpecificOutput.llm_response` edits the answer (partial); `decision` "deny" withholds it
    and tells `reason` instead; `continue` false stops the agent with `stopReason`.
    """

    name: ClassVar[str] = "AfterModel"
    llm_request: Encoded
    body: JsonObject
    model: str = ""
    stream: StreamMode | None = None
    """With one, only the hooks of that mode run: the answer is a piece of a stream, cut for them."""

    def subject(self) -> Subject:
        return Subject(model=self.model, stream=self.stream or "")

    def fields(self, view: str) -> JsonObject:
        return {"llm_request": self.llm_request, "llm_response": self._shown(view)}

    def changed(self, specific: JsonObject, view: str) -> JsonObject:
        edit = object_in(specific, "llm_response")
        return changed_part(self._shown(view), edit) if edit else {}

    def edited(self, edit: JsonObject, view: str) -> Self:
        body = self.body
        if view in _WITH_BODY and "raw" in edit:
            body = named("llm_response.raw", check_response, object_in(edit, "raw"))
        return replace(self, body=named("llm_response", apply_response, body, edit))

    def _shown(self, view: str) -> JsonObject:
        """The view of the answer; with `raw` and `body` its REST body as well, which holds the calls."""
        shown = show_response(self.body)
        return {**shown, "raw": self.body} if view in _WITH_BODY else shown


_WITH_BODY = ("raw", "body")
"""The views in which an answer's REST body stands beside the stable form."""

_RAW = frozenset({"contents", "systemInstruction"})
_CONFIG_KEYS = ("config", "generationConfig")


def changed_part(shown: JsonObject, edit: JsonObject) -> JsonObject:
    """The keys in which an edit differs from what was shown; config by its own keys."""
    changed: JsonObject = {}
    for key, value in edit.items():
        if key in _CONFIG_KEYS and isinstance(value, dict):
            current = shown.get("config", {})
            named = {name: item for name, item in value.items() if not same(item, current.get(camel(name)))}
            changed.update({key: named} if named else {})
        elif value is not None and not same(value, shown.get(key)):
            changed[key] = value
    return changed


def _in_snake_case(shown: JsonObject) -> JsonObject:
    names = {"mode": "mode", "allowedFunctionNames": "allowed_function_names"}
    return {names[key]: value for key, value in shown.items() if key in names}
