"""The answers of the mock upstream: converts the body of a generative request to response chunks.

There is no I/O, clock or randomness here: the same body gets the same chunks, byte for byte. Shapes are those
of the Gemini API's REST JSON. Requests may mix camelCase and snake_case, as real clients do; the answers are
based on a canonical camelCase copy, and use only camelCase.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from hookgate.proxy.mock_upstream.requests import Json, calling_config, declared_functions
from hookgate.proxy.mock_upstream.script import Part, ScriptedAnswer, ScriptScene

_EXAMPLES = {"STRING": "example", "NUMBER": 1, "INTEGER": 1, "BOOLEAN": True, "NULL": None}
_MAX_SCHEMA_DEPTH = 10  # a schema that requires itself has no finite instance
_ECHO = 200  # characters
_MAX_WORDS = 4  # the maximum number of words in one event
_THOUGHT = "I do not think: I am a script, not a model."


@dataclass(frozen=True)
class ModelCall:
    """One generative call. `request` is a valid body in canonical form."""

    model: str
    stream: bool
    request: Json

    @property
    def scene(self) -> ScriptScene:
        """The facts about this call that a script's conditions can check."""
        names = tuple(str(response.get("name")) for response in self.tool_responses)
        return ScriptScene(self.text, self.model, self.stream, names, self.requires_json)

    @property
    def requires_json(self) -> bool:
        """Whether the answer must be JSON."""
        mime_type = self.request.get("generationConfig", {}).get("responseMimeType")
        return isinstance(mime_type, str) and "json" in mime_type

    @property
    def text(self) -> str:
        """The last text part that is not the model's. Clients put their own context in earlier parts."""
        contents = [content for content in self.request["contents"] if content.get("role") != "model"]
        texts = [part["text"] for part in chain(*(c["parts"] for c in contents)) if "text" in part]
        return texts[-1] if texts else ""

    @property
    def tool_responses(self) -> list[Json]:
        """The functionResponse objects of the last content."""
        parts = self.request["contents"][-1]["parts"]
        return [part["functionResponse"] for part in parts if "functionResponse" in part]

    @property
    def id(self) -> str:
        """An ID of 22 characters, safe in a URL, that is the same for the same model and request."""
        body = orjson.dumps([self.model, self.request], option=orjson.OPT_SORT_KEYS)
        return base64.urlsafe_b64encode(hashlib.sha256(body).digest()[:16]).rstrip(b"=").decode()


def respond(call: ModelCall, answer: ScriptedAnswer | None) -> list[Json]:
    """Return the GenerateContentResponse of each event; exactly one if the call does not stream.

    `answer` is the script's answer, which must not be of the kind `error`, or None for the default answer.
    """
    if answer and answer.responses is not None:
        return answer.responses if call.stream else answer.responses[:1]
    events = _scripted_events(answer) if answer else _default_events(call)
    if not call.stream:
        events = [_joined(events)]
    return _stamped(events, call, answer.finish_reason if answer else "STOP")


def _scripted_events(answer: ScriptedAnswer) -> list[list[Part]]:
    if answer.text is not None:
        return [[{"text": piece}] for piece in _pieces(answer.text)]
    if answer.chunks is not None:
        return [[{"text": chunk}] if isinstance(chunk, str) else chunk for chunk in answer.chunks]
    return [answer.parts or []]


def _default_events(call: ModelCall) -> list[list[Part]]:
    function = _function_to_call(call)
    if function is not None:
        called = {"name": function["name"], "args": _arguments(function)}
        events: list[list[Part]] = [[{"functionCall": called}]]
    else:
        events = [[{"text": piece}] for piece in _pieces(_default_text(call))]
    config = call.request.get("generationConfig", {})
    thinking = config.get("thinkingConfig", {}).get("includeThoughts") is True
    if thinking or function is not None:
        signature = hashlib.sha256(f"thought of {call.id}".encode()).digest()
        events[-1][0]["thoughtSignature"] = base64.b64encode(signature).decode()
    return [[{"text": _THOUGHT, "thought": True}], *events] if thinking else events


def _function_to_call(call: ModelCall) -> Json | None:
    """Return the declaration of the function that the default answer calls, or None if it calls none.

    After a tool's response it calls none, even in mode ANY, so that an agent's loop ends.
    """
    calling = calling_config(call.request)
    declared = declared_functions(call.request)
    allowed = calling.get("allowedFunctionNames") or declared
    candidates = [declaration for name, declaration in declared.items() if name in allowed]
    if call.tool_responses or not candidates or calling.get("mode") == "NONE":
        return None
    # One function's name may be part of another's, so the longest one in the text is chosen.
    named = max((name for name in declared if name in allowed and name in call.text), key=len, default=None)
    if named is not None:
        return declared[named]
    return candidates[0] if calling.get("mode") == "ANY" or "use a tool" in call.text.lower() else None


def _arguments(declaration: Json) -> Any:
    schema = declaration.get("parameters") or declaration.get("parametersJsonSchema")
    return _instance(schema, schema) if schema else {}


def _default_text(call: ModelCall) -> str:
    prose = "\n".join(
        f"The tool {response.get('name')} answered: {_compact(response.get('response'))[:_ECHO]}"
        for response in call.tool_responses
    )
    prose = prose or f"You said: {call.text[:_ECHO]}"
    if not call.requires_json:
        return prose
    config = call.request["generationConfig"]
    schema = config.get("responseSchema") or config.get("responseJsonSchema")
    return _compact(_instance(schema, schema) if schema else {"answer": prose})


def _instance(schema: Any, root: Any, depth: int = 0) -> Any:
    """Return a minimal value of a schema, the API's own kind or JSON Schema. Its $refs point into `root`."""
    if not isinstance(schema, dict) or depth > _MAX_SCHEMA_DEPTH:
        return None
    if target := _referred(schema, root) or _list(schema.get("anyOf") or schema.get("oneOf"))[:1]:
        return _instance(target[0], root, depth + 1)
    if literals := [schema["const"]] if "const" in schema else _list(schema.get("enum")):
        return literals[0]
    kinds = _list(schema.get("type")) or [schema.get("type", "string")]
    kind = str(kinds[0]).upper()
    if kind == "OBJECT":
        properties = schema.get("properties") or {}
        required = _list(schema.get("required"))
        return {name: _instance(properties.get(name, {}), root, depth + 1) for name in required}
    return [] if kind == "ARRAY" else _EXAMPLES.get(kind)


def _referred(schema: Json, root: Any) -> list[Any]:
    """Return a list of the target of the schema's $ref, or an empty list if it has no $ref."""
    if not isinstance(reference := schema.get("$ref"), str):
        return []
    for step in reference.split("/")[1:]:
        root = root.get(step) if isinstance(root, dict) else None
    return [root]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pieces(text: str) -> list[str]:
    """Split the text at words into three or more pieces, or fewer if it has fewer words."""
    words = re.findall(r"\S+\s*|\s+", text) or [""]
    size = min(_MAX_WORDS, max(1, len(words) // 3))
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def _joined(events: list[list[Part]]) -> list[Part]:
    """Return the parts of an answer that does not stream, with texts that were split across events joined."""
    parts: list[Part] = []
    for event in events:
        if parts and event and _one_text(parts[-1], event[0]):
            text = parts[-1]["text"] + event[0]["text"]
            parts[-1] = {**parts[-1], **event[0], "text": text}
            parts.extend(event[1:])
        else:
            parts.extend(event)
    return parts


def _one_text(last: Part, following: Part) -> bool:
    return "text" in last and "text" in following and last.get("thought") == following.get("thought")


def _stamped(events: list[list[Part]], call: ModelCall, finish_reason: str) -> list[Json]:
    """Return the events as responses with cumulative token counts, and a finishReason in the last one."""
    prompt = prompt_tokens(call.request)
    thought = spoken = 0
    chunks: list[Json] = []
    for parts in events:
        thought += sum(_size(part) for part in parts if part.get("thought"))
        spoken += sum(_size(part) for part in parts if not part.get("thought"))
        chunks.append(
            {
                "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
                "usageMetadata": _usage(prompt, _tokens(spoken), _tokens(thought)),
                "modelVersion": call.model,
                "responseId": call.id,
            }
        )
    chunks[-1]["candidates"][0]["finishReason"] = finish_reason
    return chunks


def _usage(prompt: int, candidates: int, thoughts: int) -> Json:
    usage = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": candidates,
        "totalTokenCount": prompt + candidates + thoughts,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
        "thoughtsTokenCount": thoughts,
    }
    # As in the API, a count of nothing is left out: an event that is all thought has no candidates yet.
    return {name: value for name, value in usage.items() if value}


def prompt_tokens(request: Json) -> int:
    """Estimate the tokens: one for every four characters of text, or of compact JSON for other parts."""
    contents = [*request["contents"], request.get("systemInstruction", {"parts": []})]
    parts = chain(*(content["parts"] for content in contents))
    return _tokens(sum(map(_size, parts)) + sum(map(_size, request.get("tools", []))))


def _tokens(characters: int) -> int:
    return -(-characters // 4)


def _size(value: Json) -> int:
    text = value.get("text")
    return len(text if isinstance(text, str) else _compact(value))


def embedding(content: Json, dimensions: int) -> Json:
    """Return a ContentEmbedding of numbers in [-1, 1], the same for the same content, without any meaning."""
    digest = hashlib.shake_256(_compact(content).encode()).digest(dimensions)
    return {"values": [round(byte / 127.5 - 1, 6) for byte in digest]}


def _compact(value: Any) -> str:
    return orjson.dumps(value).decode()
