"""Generated generateContent bodies: what real clients send and models answer, and what they could.

Texts repeat often, so that equal messages occur. Laws that have to tell texts apart take the `distinct_`
strategies, in which every text part holds a word of its own. Every function call has an ID, and its
response the same one.
"""

import json
import re
from typing import Any

from hypothesis import strategies as st
from support.translation.inspect import number_texts

Json = dict[str, Any]

TEXTS = ["", "hi", "hi\n", "ab ab", " x", "ends. ", "{é}", '"😀\\', "two\n\nlines"]
MEDIA = [
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
    {"inline_data": {"mime_type": "image/png", "data": "iVBORw=="}},
    {"fileData": {"fileUri": "gs://b/f.pdf"}, "videoMetadata": {"fps": 2.0}},
    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
    {"holograms": [{"text": "not a text part"}], "weight": 1.0},
    {},
]
NUMBERS = [0, 1, 2.0, 0.25, -1.5, 40, 2**53 + 1, 2**63, -(2**70)]
NAMES = ("read_file", "write_file", "shell", "search")


def spelled(fields: Json) -> st.SearchStrategy[Json]:
    """The object with some keys in snake_case, in another order, perhaps with a field unknown to us.

    One number decides it all, since drawing each decision makes bodies slow to generate.
    """
    return st.integers(0, 2**10 - 1).map(lambda number: _spelled(fields, number))


def _spelled(fields: Json, number: int) -> Json:
    if number & 3 == 3:
        fields = {**fields, "futureField": [2.0, 2**64, {"a_b": 1, "aC": None}][number % 3]}
    keys = list(fields)[::-1] if number & 4 else list(fields)
    return {snake(k) if number >> (3 + i) & 1 else k: fields[k] for i, k in enumerate(keys)}


def snake(key: str) -> str:
    return re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", key)


def one_or_list(items: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[Any]:
    """The list, or its only item bare, which the API takes too."""
    return st.tuples(items, st.booleans()).map(lambda t: t[0][0] if len(t[0]) == 1 and t[1] else t[0])


def some(*fields: tuple[str, Any]) -> st.SearchStrategy[Json]:
    """An object of some of these fields."""
    return st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda field: field[0]).map(dict)


# ---- parts


TEXT_PARTS = [
    _spelled({"text": text, **flags}, number)
    for text in TEXTS
    for flags in ({}, {}, {"thought": True}, {"thoughtSignature": "c2ln"})
    for number in (0, 3, 60)
]


def text_parts() -> st.SearchStrategy[Json]:
    return st.sampled_from(TEXT_PARTS)


@st.composite
def calls(draw: st.DrawFn, call_id: str) -> Json:
    call = {"functionCall": {"id": call_id, "name": draw(st.sampled_from(NAMES)), "args": {"max_n": 2.0}}}
    return draw(spelled({**call, **draw(some(("thoughtSignature", "Y2FsbA==")))}))


@st.composite
def results(draw: st.DrawFn, call_id: str) -> Json:
    response = {"id": call_id, "name": "any", "response": {"text": "not a text part", "n": 2**64}}
    return draw(spelled({"functionResponse": response}))


def plain_parts() -> st.SearchStrategy[list[Json]]:
    return st.lists(st.sampled_from(TEXT_PARTS + 4 * MEDIA), max_size=4)


@st.composite
def content(draw: st.DrawFn, role: str | None, parts: list[Json]) -> Json:
    fields: Json = {"parts": draw(one_or_list(st.just(parts)))}
    return draw(spelled(fields if role is None else {"role": role, **fields}))


# ---- conversations


@st.composite
def plain_turns(draw: st.DrawFn) -> list[Json]:
    role = draw(st.sampled_from(["user", "model", None]))
    return [draw(content(role, draw(plain_parts())))]


@st.composite
def tool_turns(draw: st.DrawFn) -> list[Json]:
    """A call or several at once with what answers them, in the shapes that real chats leave behind."""
    ids = [f"call-{i}" for i in range(draw(st.integers(1, 3)))]
    asked = [draw(calls(i)) for i in ids]
    answered = [draw(results(i)) for i in ids]
    said = draw(st.lists(text_parts(), max_size=2))
    shape = draw(st.sampled_from(["one turn", "chunks", "chunks with a last word"]))
    if shape == "one turn":
        model = [said + asked]
    else:  # a streamed turn that the client's history holds chunk by chunk
        model = [said, *([call] for call in asked)] if said else [[call] for call in asked]
    if shape == "chunks with a last word":
        model.append([draw(text_parts())])
    heard = draw(st.lists(text_parts(), max_size=1))
    user = [[answer] for answer in answered] if draw(st.booleans()) else [answered]
    user[-1] = user[-1] + heard
    back = draw(st.sampled_from(["user", "function"]))
    return [draw(content("model", parts)) for parts in model] + [draw(content(back, p)) for p in user]


def conversations(turns: st.SearchStrategy[list[Json]] | None = None) -> st.SearchStrategy[list[Json]]:
    if turns is None:
        turns = st.one_of(plain_turns(), plain_turns(), tool_turns())
    return st.lists(turns, max_size=5).map(_joined)


def _joined(blocks: list[list[Json]]) -> list[Json]:
    numbered = [json.dumps(block).replace('"call-', f'"call-{n}-') for n, block in enumerate(blocks)]
    return [content for block in numbered for content in json.loads(block)]


# ---- requests


@st.composite
def system_instructions(draw: st.DrawFn) -> Json:
    return draw(content(draw(st.sampled_from([None, "user", "system"])), draw(plain_parts())))


def generation_configs() -> st.SearchStrategy[Json]:
    fields = some(
        *((key, n) for key in ("temperature", "topP", "maxOutputTokens", "seed") for n in NUMBERS),
        ("stopSequences", ["END"]),
        ("responseSchema", {"type": "OBJECT", "property_ordering": ["a_b"], "minItems": 2.0}),
        ("thinkingConfig", {"includeThoughts": True, "thinking_budget": 2.0}),
        ("candidateCount", None),
        ("odd_1", 1),
    )
    return fields.flatmap(spelled)


def declarations(name: str) -> Json:
    return {"name": name, "parameters_json_schema": {"type": "object", "maximum": 2.0}}


@st.composite
def tools(draw: st.DrawFn) -> Any:
    """Declarations over several tool objects, with built-in tools beside and among them."""
    found = []
    left = list(draw(st.permutations(NAMES)))
    for _ in range(draw(st.integers(0, 3))):
        taken = [declarations(left.pop()) for _ in range(draw(st.integers(0, min(2, len(left)))))]
        tool: Json = {"functionDeclarations": taken} if taken else {"googleSearch": {}}
        found.append(draw(spelled({**tool, **draw(some(("codeExecution", {})))})))
    return draw(one_or_list(st.just(found)))


@st.composite
def tool_configs(draw: st.DrawFn) -> Json:
    calling: Json = draw(some(*(("mode", mode) for mode in ("AUTO", "ANY", "NONE", "VALIDATED"))))
    if calling.get("mode") in ("ANY", "VALIDATED") and draw(st.booleans()):
        calling["allowedFunctionNames"] = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    config = draw(some(("retrievalConfig", {"latLng": {"latitude": 2.0}})))
    if calling:
        config["functionCallingConfig"] = draw(spelled(calling))
    return draw(spelled(config))


@st.composite
def requests(draw: st.DrawFn, turns: st.SearchStrategy[list[Json]] | None = None) -> Json:
    fields = {"contents": draw(one_or_list(conversations(turns)))}
    others = (
        ("systemInstruction", system_instructions()),
        ("generationConfig", generation_configs()),
        ("tools", tools()),
        ("toolConfig", tool_configs()),
        ("safetySettings", st.just([{"category": "HARM", "threshold": "OFF"}])),
        ("cachedContent", st.just("cachedContents/1")),
    )
    chosen = draw(st.integers(0, 2 ** len(others) - 1))
    fields |= {name: draw(value) for i, (name, value) in enumerate(others) if chosen >> i & 1}
    return draw(spelled(fields))


distinct_requests = requests().map(number_texts)
distinct_chats = requests(plain_turns()).map(number_texts)
"""Without function calls, so that no message is bound to another."""


# ---- responses


@st.composite
def candidates(draw: st.DrawFn) -> Json:
    candidate = draw(
        some(
            *(("finishReason", reason) for reason in ("STOP", "MAX_TOKENS", "SOMETHING_NEW")),
            ("safetyRatings", [{"category": "HARM", "probability": "LOW", "score": 1.0}]),
            ("groundingMetadata", {"webSearchQueries": ["q"], "confidence": 2.0}),
            ("avgLogprobs", -1.0),
        )
    )
    if draw(st.integers(0, 4)):
        parts = draw(plain_parts())
        if draw(st.booleans()):
            parts.insert(draw(st.integers(0, len(parts))), draw(calls("call-0")))
        candidate["content"] = draw(
            st.sampled_from([{"parts": parts}, {"parts": parts, "role": "model"}, {}])
        )
    return candidate


@st.composite
def responses(draw: st.DrawFn) -> Json:
    """Whole answers and single events of streams; each candidate has an index of its own, or none has."""
    found = draw(st.lists(candidates(), max_size=3))
    numbering = draw(st.sampled_from(["none", "all", "omitted zero", "backwards"]))
    for at, candidate in enumerate(found):
        index = len(found) - 1 - at if numbering == "backwards" else at
        if numbering != "none" and not (numbering == "omitted zero" and index == 0):
            candidate["index"] = index
    body: Json = {"candidates": found} if found or draw(st.booleans()) else {}
    usage = [{"promptTokenCount": 2.0, "totalTokenCount": 2**64}, {"trafficType": "ON_DEMAND"}]
    rest = some(
        *(("usageMetadata", counts) for counts in usage),
        ("promptFeedback", {"safetyRatings": []} if found else {"blockReason": "SAFETY"}),
        ("modelVersion", "gemini-2.5-flash"),
        ("futureField", 2.0),
    )
    return {**body, **draw(rest)}


distinct_responses = responses().map(number_texts)
