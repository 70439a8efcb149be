"""The events of a model call: before it, before the choice of its tools, and after it."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import WithJsonSchema

from hookgate.hooks.contract.base import (
    HookInput,
    HookOutput,
    JsonObject,
    Specific,
    SpecificOutput,
    Unchecked,
)
from hookgate.translator import show_request
from hookgate.translator.fields import read, read_list, read_object


class ModelEventInput(HookInput):
    """What all events of a model call show: the request."""

    llm_request: JsonObject | None = None
    """The request: `model`, `messages`, `config`, `toolConfig`. With `"view": "raw"` also `contents`,
    `generationConfig`, `systemInstruction` and, to be read alone, `tools`. With `"view": "body"` only
    `model`, the whole REST body under `raw`, and under `beside` the rest of Code Assist's envelope."""

    @property
    def request(self) -> JsonObject:
        """The request as `model`, `messages`, `config`, also where only the raw `contents` were sent."""
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


class BeforeModelSpecific(SpecificOutput):
    """What a hook may do with a request."""

    llm_request: Unchecked = None
    """Edits the request: only what it names changes."""

    llm_response: Unchecked = None
    """The answer: whenever it is given, the model is not called. `{"text": "…"}` is enough; under `raw` a
    whole REST body, which is then the answer as it is."""


class BeforeModelOutput(HookOutput):
    """May refuse the call, change the request, or answer in the model's place.

    - `deny`: the call is refused with `reason`.
    - `continue: false`: the agent reads `stopReason` as the model's last words, and ends.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: a lower temperature, and nothing else.

        {"hookSpecificOutput": {"llm_request": {"config": {"temperature": 0.2}}}}
    """

    hook_specific_output: Specific[BeforeModelSpecific] = None


class BeforeToolSelectionInput(ModelEventInput):
    """Fires after BeforeModel, before the model may choose tools.

    Fired by the gateway. A matcher is ignored.
    """

    hook_event_name: Literal["BeforeToolSelection"]

    available_tools: list[Any] | None = None
    """The request's tools as they are."""

    tool_config: JsonObject | None = None
    """The selection that stands: `mode`, `allowed_function_names`."""

    @property
    def selection(self) -> JsonObject:
        """`mode` and `allowedFunctionNames` of `tool_config` or `llm_request.toolConfig`, flat or nested."""
        config = self.tool_config or read_object(self.request, "toolConfig")
        config = read_object(config, "functionCallingConfig") or config
        keys = ("mode", "allowedFunctionNames")
        return {key: value for key in keys if (value := read(config, key)) is not None}


class BeforeToolSelectionSpecific(SpecificOutput):
    """What a hook may do with the choice of tools."""

    spellings: ClassVar[dict[str, str]] = {"tool_config": "toolConfig"}

    toolConfig: Unchecked = None  # noqa: N815  # tool_config is the other spelling's
    """`mode` (AUTO, ANY, NONE, VALIDATED) and `allowedFunctionNames`, flat or in `functionCallingConfig`."""

    tool_config: Unchecked = None
    """Another spelling of `toolConfig`, in snake_case."""

    tools: Annotated[Any, WithJsonSchema({"type": "array"})] = None
    """Names, or tools: other function declarations are left out."""


class BeforeToolSelectionOutput(HookOutput):
    """May limit the tools that the model can choose.

    Plain names on stdout, `read_file,write_file`, mean mode ANY with these names.

    - `deny`: the call is refused with `reason`.
    - `continue: false`: the agent reads `stopReason` as the model's last words, and ends.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: reading, and nothing else.

        {"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}}}
    """

    hook_specific_output: Specific[BeforeToolSelectionSpecific] = None


class AfterModelInput(ModelEventInput):
    """Fires when the model has answered: once for a whole answer, or for each event of a stream.

    Fired by the gateway. A matcher is ignored.
    """

    hook_event_name: Literal["AfterModel"]

    llm_response: JsonObject | None = None
    """The answer: `text`, `candidates`, `usageMetadata`. With `"view": "raw"` or `"body"`
    also `raw`, its REST body."""

    @property
    def text(self) -> str:
        """The answer's text: `text`, or the parts of the first candidate, joined."""
        response = self.llm_response or {}
        if isinstance(text := response.get("text"), str):
            return text
        candidates = [each for each in read_list(response, "candidates") if isinstance(each, dict)]
        content = read_object(candidates[0], "content") if candidates else {}
        return "".join(map(_text, read_list(content, "parts")))


def _text(part: Any) -> str:
    """A part's text, whether it is a string or `{"text"}`; empty for any other."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


class AfterModelSpecific(SpecificOutput):
    """What a hook may do with an answer."""

    llm_response: Unchecked = None
    """Edits the answer: only what it names changes; `text` alone will do. Empty `parts` empty the text."""

    redacted: bool | None = None
    """`true` marks the record of the call."""


class AfterModelOutput(HookOutput):
    """May change the answer, or withhold it.

    - `deny`: the answer is withheld; a stream that has begun ends with `reason`.
    - `continue: false`: the answer ends with `stopReason`, and the agent with it.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: another text.

        {"hookSpecificOutput": {"llm_response": {"text": "The key is [REDACTED]."}, "redacted": true}}
    """

    hook_specific_output: Specific[AfterModelSpecific] = None
