"""Requests that a gateway has to judge or refuse, and mutations of them without end. Pure.

Each holds the forbidden word in some place that carries text. A mutation changes the bytes, the head or the
JSON of the request, so that what is left of the word may be anywhere.
"""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

WORD = "forbiddenword"
TEXT = f"please say {WORD} twice"

_GEMINI = "/v1beta/models/gemini-2.5-flash:"
_VERTEX = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:"
_CONTENT = {"role": "user", "parts": [{"text": TEXT}]}
_HELLO = {"role": "user", "parts": [{"text": "hello"}]}
_CALL = {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {"path": "a.txt"}}}]}
_RESULT = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "read_file", "response": {"output": TEXT}}}],
}
_TOOLS = [{"functionDeclarations": [{"name": "read_file", "description": "Reads a file."}]}]


@dataclass(frozen=True)
class HttpRequest:
    """One request: its line, header lines and body, before they become bytes."""

    target: str
    body: Any
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = (
        ("Host", "localhost"),
        ("x-goog-api-key", "key"),
        ("Content-Type", "application/json"),
    )

    def encoded(self) -> bytes:
        """The request as bytes, with the length of its body."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += [f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode() + body


CORPUS = (
    HttpRequest(f"{_GEMINI}generateContent", {"contents": [_CONTENT]}),
    HttpRequest(f"{_GEMINI}streamGenerateContent?alt=sse", {"contents": [_HELLO, _CONTENT]}),
    HttpRequest(f"{_GEMINI}streamGenerateContent", {"contents": [_CONTENT], "tools": _TOOLS}),
    HttpRequest(
        f"{_GEMINI}generateContent",
        {"systemInstruction": {"parts": [{"text": TEXT}]}, "contents": [_HELLO], "tools": _TOOLS},
    ),
    HttpRequest(f"{_GEMINI}generateContent", {"contents": [_HELLO, _CALL, _RESULT], "tools": _TOOLS}),
    HttpRequest(
        f"/s/session{_GEMINI}generateContent",
        {
            "contents": [_CONTENT],
            "generationConfig": {"temperature": 0.5, "responseMimeType": "application/json"},
        },
    ),
    HttpRequest(f"{_GEMINI}countTokens", {"contents": [_CONTENT]}),
    HttpRequest(
        f"{_GEMINI}countTokens",
        {"generateContentRequest": {"model": "models/gemini-2.5-flash", "contents": [_CONTENT]}},
    ),
    HttpRequest("/v1beta/models/gemini-embedding-001:embedContent", {"content": {"parts": [{"text": TEXT}]}}),
    HttpRequest(
        "/v1beta/models/gemini-embedding-001:batchEmbedContents",
        {
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "content": {"parts": [{"text": TEXT}]},
                    "title": TEXT,
                }
            ]
        },
    ),
    HttpRequest(
        "/v1beta/models/gemini-embedding-001:asyncBatchEmbedContent",
        {
            "batch": {
                "displayName": "b",
                "inputConfig": {"requests": {"requests": [{"request": {"content": _CONTENT}}]}},
            }
        },
    ),
    HttpRequest(
        f"{_GEMINI}batchGenerateContent",
        {
            "batch": {
                "displayName": "b",
                "inputConfig": {"requests": {"requests": [{"request": {"contents": [_CONTENT]}}]}},
            }
        },
    ),
    HttpRequest(f"{_VERTEX}generateContent", {"contents": [_CONTENT]}),
    HttpRequest(f"{_VERTEX}computeTokens", {"contents": [_CONTENT]}),
    HttpRequest(
        "/v1internal:generateContent",
        {"model": "gemini-2.5-flash", "project": "p", "request": {"contents": [_CONTENT], "session_id": "s"}},
    ),
    HttpRequest(
        "/v1internal:countTokens", {"request": {"model": "gemini-2.5-flash", "contents": [_CONTENT]}}
    ),
    HttpRequest("/v1beta/cachedContents", {"model": "models/gemini-2.5-flash", "contents": [_CONTENT]}),
    HttpRequest("/v1beta/interactions", {"model": "gemini-2.5-flash", "input": TEXT}),
    HttpRequest(
        "/v1beta/openai/chat/completions",
        {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": TEXT}]},
    ),
    HttpRequest("/v1beta/openai/responses", {"model": "gemini-2.5-flash", "input": TEXT}),
    HttpRequest("/v1beta/openai/embeddings", {"model": "gemini-2.5-flash", "input": [TEXT]}),
    HttpRequest("/v1beta/openai/embeddings", {"model": "gemini-2.5-flash", "input": ["hello"], "user": WORD}),
    HttpRequest(
        "/v1beta/openai/chat/completions",
        {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hello"}], "user": WORD},
    ),
    HttpRequest("/upload/v1beta/files", {"file": {"displayName": TEXT}}),
    HttpRequest("/hookgate/v1/events/BeforeAgent", {"session_id": "s", "prompt": TEXT}),
    HttpRequest(
        f"{_GEMINI}generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"fileData": {"fileUri": f"https://example.test/{WORD}"}}]}
            ]
        },
    ),
)
"""Every sort of request that carries text."""


def mutated(seed: int) -> bytes:
    """The request with this number. Every tenth is left as it is, the rest changed once or a few times."""
    dice = random.Random(seed)  # noqa: S311  # reproducible by its number
    request = dice.choice(CORPUS)
    kind = dice.randrange(10)
    if kind == 0:
        return request.encoded()
    if kind <= 4:
        return replace(request, body=_changed_json(request.body, dice)).encoded()
    if kind <= 6:
        return _changed_head(request, dice).encoded()
    if kind == 7:
        return replace(request, body=_changed_bytes(json.dumps(request.body).encode(), dice)).encoded()
    return _changed_bytes(request.encoded(), dice)


# ---- bytes


def _changed_bytes(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        data = dice.choice(_BYTE_CHANGES)(data, dice)
    return data


def _flip(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) or 1)
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :] if data else data


def _insert(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(_INSERTIONS) + data[at:]


def _delete(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + data[at + dice.choice((1, 1, 2, 8, 64)) :]


def _repeat(data: bytes, dice: random.Random) -> bytes:
    begin = dice.randrange(len(data) + 1)
    end = begin + dice.choice((1, 4, 16, 128))
    return data[:end] + data[begin:end] * dice.choice((1, 2, 9)) + data[end:]


_BYTE_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (_flip, _insert, _delete, _repeat)
_INSERTIONS = (
    *(bytes([byte]) for byte in (0, 9, 10, 13, 32, 34, 44, 58, 91, 92, 93, 123, 125, 127, 128, 255)),
    b"\r\n",
    b"\r\n\r\n",
    b'\\"',
    b"\\u0000",
    b"\\ud800",
    b"1e400",
    b"9" * 30,
    b"NaN",
    b"[" * 120,
    b'{"a":' * 40,
    b"\xef\xbb\xbf",
    b"\xc3\x28",
    b"%2e%2e/",
    b"//",
    b";",
)


# ---- the head


def _changed_head(request: HttpRequest, dice: random.Random) -> HttpRequest:
    headers = list(request.headers)
    match dice.randrange(6):
        case 0:
            name, value = dice.choice(headers)
            headers.append((dice.choice((name, name.lower(), name.upper())), value))
        case 1:
            headers.insert(dice.randrange(len(headers) + 1), dice.choice(_HEADERS))
        case 2:
            del headers[dice.randrange(len(headers))]
        case 3:
            return replace(request, method=dice.choice(("GET", "PUT", "PATCH", "DELETE", "HEAD", "post", "")))
        case 4:
            return replace(request, target=_changed_target(request.target, dice))
        case _:
            return replace(request, target=dice.choice(CORPUS).target)
    return replace(request, headers=tuple(headers))


def _changed_target(target: str, dice: random.Random) -> str:
    at = dice.randrange(len(target) + 1)
    piece = dice.choice(
        ("/", "//", "/./", "%2F", "%3A", ":", ";", "?", "&key=other", "#", "a", "/s/x", "\t", "@")
    )
    return dice.choice((target[:at] + piece + target[at:], target[:at] + target[at + 1 :], target + piece))


_HEADERS = (
    ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "identity"),
    ("Content-Length", "5"),
    ("Content-Encoding", "gzip"),
    ("Content-Encoding", "deflate, gzip"),
    ("Expect", "100-continue"),
    ("Connection", "close"),
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Authorization", "Bearer key"),
    ("Authorization", "Bearer other"),
    ("x-hookgate-session", "a/../b"),
    ("x-http-method-override", "GET"),
    ("x-goog-fieldmask", "a"),
    ("x-forwarded-for", "127.0.0.1"),
    ("Content-Type", "text/plain"),
    ("Content-Type", "application/json; charset=utf-16"),
    ("X-Long", "x" * 9000),
    ("X", "\x1b[31m"),
)


# ---- JSON


def _changed_json(body: Any, dice: random.Random) -> bytes:
    body = deepcopy(body)
    for _ in range(dice.choice((1, 1, 2, 3))):
        holder, key = _some_place(body, dice)
        if holder is None:
            break
        dice.choice(_JSON_CHANGES)(holder, key, dice)
    return _encoded(body, dice)


def _some_place(body: Any, dice: random.Random) -> tuple[Any, Any]:
    """An object or list somewhere in the body, and one of its keys."""
    places: list[tuple[Any, Any]] = []
    level = [body]
    while level:
        item = level.pop()
        if isinstance(item, dict | list):
            keys = list(item) if isinstance(item, dict) else list(range(len(item)))
            places += [(item, key) for key in keys]
            level += [item[key] for key in keys]
    return dice.choice(places) if places else (None, None)


def _other_value(holder: Any, key: Any, dice: random.Random) -> None:
    values = (None, True, 0, -1, 2**70, 1.5, "", TEXT, [], {}, [TEXT], {"text": TEXT}, [_CONTENT])
    holder[key] = deepcopy(dice.choice(values))


def _wrap(holder: Any, key: Any, dice: random.Random) -> None:
    value = holder[key]
    wrappings = ([value], {"text": value}, {"contents": value}, {"parts": [value]}, [value, deepcopy(value)])
    holder[key] = dice.choice(wrappings)


def _unwrap(holder: Any, key: Any, dice: random.Random) -> None:
    value = holder[key]
    if isinstance(value, list) and value:
        holder[key] = value[0]
    elif isinstance(value, dict) and value:
        holder[key] = dice.choice(list(value.values()))


def _respell(holder: Any, key: Any, dice: random.Random) -> None:
    """Give a field its other spelling, in its place or beside it."""
    if not isinstance(holder, dict):
        return
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in key)
    camel = key.split("_")[0] + "".join(word.title() for word in key.split("_")[1:])
    other = dice.choice((snake, camel, key.upper(), key + " ", key.title()))
    value = deepcopy(holder[key]) if dice.randrange(2) else holder.pop(key)
    holder[other] = value


def _add_field(holder: Any, key: Any, dice: random.Random) -> None:
    name, value = deepcopy(dice.choice(_FIELDS))
    if isinstance(holder, dict):
        holder.setdefault(name, value)
    else:
        holder.insert(dice.randrange(len(holder) + 1), {name: value})


def _remove(holder: Any, key: Any, dice: random.Random) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, dice: random.Random) -> None:
    if isinstance(holder, dict):
        holder[dice.choice(_FIELDS)[0]] = holder.pop(key)


_JSON_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    _other_value,
    _wrap,
    _unwrap,
    _respell,
    _add_field,
    _remove,
    _rename,
)
_FIELDS: tuple[tuple[str, Any], ...] = (
    ("text", TEXT),
    ("contents", [_CONTENT]),
    ("content", _CONTENT),
    ("systemInstruction", {"parts": [{"text": TEXT}]}),
    ("system_instruction", TEXT),
    ("parts", [{"text": TEXT}]),
    ("inlineData", {"mimeType": "text/plain", "data": "Zm9yYmlkZGVud29yZA=="}),
    ("fileData", {"fileUri": f"gs://bucket/{WORD}", "mimeType": "text/plain"}),
    ("functionCall", {"name": WORD, "args": {"a": TEXT}}),
    ("functionResponse", {"name": "x", "response": {"output": TEXT}}),
    ("executableCode", {"language": "PYTHON", "code": TEXT}),
    ("codeExecutionResult", {"outcome": "OUTCOME_OK", "output": TEXT}),
    ("thought", True),
    ("cachedContent", f"cachedContents/{WORD}"),
    ("generationConfig", {"stopSequences": [TEXT], "responseSchema": {"description": TEXT}}),
    ("tools", [{"functionDeclarations": [{"name": "x", "description": TEXT}]}]),
    ("toolConfig", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [WORD]}}),
    ("labels", {"a": TEXT}),
    ("safetySettings", []),
    ("generateContentRequest", {"contents": [_CONTENT]}),
    ("instances", [{"content": TEXT}]),
    ("requests", [{"content": _CONTENT}]),
    ("batch", {"inputConfig": {"fileName": "files/x"}}),
    ("title", TEXT),
    ("displayName", TEXT),
    ("metadata", {"key": TEXT}),
    ("input", TEXT),
    ("messages", [{"role": "user", "content": TEXT}]),
    ("model", "models/other"),
    ("role", "system"),
    ("request", {"contents": [_CONTENT]}),
    ("unknownField", TEXT),
)


def _encoded(body: Any, dice: random.Random) -> bytes:
    """The body as JSON, in one of the ways to write it."""
    match dice.randrange(8):
        case 0:
            return json.dumps(body, indent=1).encode()
        case 1:
            return json.dumps(body).replace("o", "\\u006f").encode()
        case 2:
            return json.dumps(body).encode("utf-16")
        case 3:
            return _with_a_repeated_key(json.dumps(body), dice).encode()
        case _:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def _with_a_repeated_key(text: str, dice: random.Random) -> str:
    """A second field of the same name before or behind the first."""
    name, value = dice.choice(_FIELDS)
    pair = f"{json.dumps(name)}: {json.dumps(value)}"
    at = dice.choice([at for at, each in enumerate(text) if each == "{"] or [0])
    return f"{text[: at + 1]}{pair}, {pair}, {text[at + 1 :]}" if "{" in text else text
