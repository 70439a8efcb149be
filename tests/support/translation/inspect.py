"""What the laws compare, read without the translator: texts, other values, calls, exact JSON."""

import json
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]


def exact(value: Any) -> str:
    """Tells apart what `==` does not: key order, 2 and 2.0, 1 and true."""
    return json.dumps(value, ensure_ascii=False)


def listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, dict) else list(value or [])


def contents_of(body: Json) -> list[Json]:
    return listed(body.get("contents"))


def system_of(body: Json) -> Json:
    return body.get("systemInstruction") or body.get("system_instruction") or {}


def parts_of(content: Json) -> list[Json]:
    return listed(content.get("parts"))


def all_parts(body: Json) -> Iterator[Json]:
    """The parts of the contents, the system instruction and the candidates."""
    for content in [system_of(body), *contents_of(body)]:
        yield from parts_of(content)
    for candidate in body.get("candidates") or []:
        yield from parts_of(candidate.get("content") or {})


def text_of(content: Json) -> str:
    return "".join(part.get("text", "") for part in parts_of(content))


def texts(body: Json) -> list[str]:
    return [part["text"] for part in all_parts(body) if "text" in part]


def hidden_parts(body: Json) -> list[Json]:
    """The parts that are not text, in order."""
    return [part for part in all_parts(body) if "text" not in part]


def with_each_text(body: Json, change: Callable[[str], str]) -> Json:
    """The body with every text part's text changed and nothing else: what a perfect edit leaves."""
    body = json.loads(json.dumps(body))  # unlike a deep copy, parts that were one object are two
    for part in all_parts(body):
        if "text" in part:
            part["text"] = change(part["text"])
    return body


def without_words(body: Json) -> str:
    """All of the body but its texts, exactly."""
    return exact(with_each_text(body, lambda _: "…"))


def number_texts(body: Json) -> Json:
    """Give every text that is not empty a word of its own, with other words around it."""
    numbers = iter(range(1000, 10_000))
    return with_each_text(body, lambda text: text and f"{text}before w{next(numbers)} after")


def own_word(text: str) -> str:
    """The first word that `number_texts` gave."""
    at = text.index("before w") + len("before ")
    return text[at : at + len("w1000")]


# ---- function calls


def _ids(content: Json, *fields: str) -> list[str]:
    return [part[field]["id"] for part in parts_of(content) for field in fields if field in part]


def between_pairs(body: Json) -> dict[str, list[Json]]:
    """For each call's ID the contents that stand between the call and its response."""
    called, found = {}, {}
    contents = contents_of(body)
    for at, content in enumerate(contents):
        for i in _ids(content, "functionCall", "function_call"):
            called[i] = at
        for i in _ids(content, "functionResponse", "function_response"):
            found[i] = contents[called[i] + 1 : at]
    return found
