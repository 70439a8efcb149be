"""Deterministic requests and answers like those of coding agents.

Their strings contain JSON and code, and therefore, unlike prose, many escapes (`\\"`, `\\n`, `\\\\`).
"""

import base64
import random
from collections.abc import Iterator
from typing import Any

import orjson

WORDS = "the gateway reads what an agent asks and a hook decides what may pass "

AGENT_BYTES = 122_000
LARGE_BYTES = 5_000_000
EVENTS = 40

FORBIDDEN = "xyzzy"
"""The word that the hooks of the benchmarks deny. No payload contains it."""

SECRET = "AKIA" + "Z7QX4MWPLT2RKVNB"
"""A credential in the form of an AWS access key, which `redact` masks by default."""

_NAMES = (
    "session",
    "request",
    "budget",
    "route",
    "verdict",
    "stream",
    "record",
    "upstream",
    "header",
    "cursor",
)

_RESULT_BYTES = (100, 300, 600, 1_000, 2_000, 3_000, 5_000, 8_000, 12_000, 25_000)
"""The sizes of tools' results in a conversation."""

_TOOLS = (
    ("read_file", ("file_path", "start_line", "end_line")),
    ("write_file", ("file_path", "content")),
    ("replace", ("file_path", "old_string", "new_string", "expected_replacements")),
    ("run_shell_command", ("command", "description", "directory")),
    ("search_file_content", ("pattern", "path", "include")),
    ("list_directory", ("path", "ignore", "respect_git_ignore")),
    ("glob", ("pattern", "path", "case_sensitive")),
    ("web_fetch", ("prompt",)),
    ("google_web_search", ("query",)),
    ("save_memory", ("fact",)),
    ("read_many_files", ("paths", "include", "exclude", "recursive")),
    ("update_topic", ("title", "summary", "strategic_intent")),
)


def small_request(text: str = "hello") -> dict[str, Any]:
    """Return a request with one short turn."""
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def agent_request(
    size: int = AGENT_BYTES, first: str = "fix the failing test", seed: int = 122
) -> dict[str, Any]:
    """Return a request of a coding agent in the middle of a task.

    It has a system instruction of 27 KB, twelve tools, and turns of function calls and their results.

    Args:
        size: The approximate size of its JSON in bytes, accurate to 4 KB.
        first: The text of the first turn, which determines the session.
        seed: Determines all other texts but those of the tools.
    """
    rnd = random.Random(seed)  # noqa: S311  # texts of a benchmark
    request = {
        "contents": [{"role": "user", "parts": [{"text": _context()}, {"text": first}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": _instruction(rnd)}]},
        "tools": [{"functionDeclarations": [_declaration(name, keys) for name, keys in _TOOLS]}],
        "generationConfig": {
            "temperature": 1,
            "topP": 0.95,
            "topK": 64,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192},
        },
    }
    have = len(orjson.dumps(request))
    number = 0
    while have < size - 4_000:
        turns = list(_turns(rnd, number))
        request["contents"] += turns  # type: ignore[operator]  # the list above
        have += len(orjson.dumps(turns))
        number += 1
    rest = {"role": "user", "parts": [{"text": "go on"}]}
    request["contents"].append(rest)  # type: ignore[attr-defined]  # as above
    return request


def conversation_requests(seed: int, turns: int = 40) -> list[dict[str, Any]]:
    """Return the requests of a conversation in order: each has one function call and its result more.

    The results have the sizes of real ones, from 0.1 to 25 KB. `seed` determines all texts of the turns, so
    that conversations have only their tools in common.
    """
    rnd = random.Random(seed)  # noqa: S311  # texts of a benchmark
    first = agent_request(0, f"task {seed}", seed)
    contents, requests = first["contents"][:1], []
    for number in range(turns):
        contents += _turns(rnd, number, rnd.choice(_RESULT_BYTES))
        requests.append({**first, "contents": contents[: _end_of_results(contents)]})
    return requests


def _end_of_results(contents: list[dict[str, Any]]) -> int:
    """Return the number of contents up to the last result of a tool."""
    return max(at for at, content in enumerate(contents, 1) if "functionResponse" in content["parts"][0])


def embedding_request(inputs: int) -> dict[str, Any]:
    """Return a request for the embeddings of short texts."""
    return {
        "requests": [
            {"model": "models/embed", "content": {"parts": [{"text": f"text {number} {WORDS}"}]}}
            for number in range(inputs)
        ]
    }


def batch_request(requests: int) -> dict[str, Any]:
    """Return a request for a batch of short requests."""
    items = [
        {"request": small_request(f"question {number} {WORDS}"), "metadata": {"key": str(number)}}
        for number in range(requests)
    ]
    return {"batch": {"displayName": "batch", "inputConfig": {"requests": {"requests": items}}}}


def secret_request(size: int = AGENT_BYTES, first: str = "fix the failing test") -> dict[str, Any]:
    """Return an agent's request in which the result of one tool contains a credential."""
    request = agent_request(size, first)
    results = [
        part["functionResponse"]["response"]
        for content in request["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]
    results[len(results) // 2]["output"] += f'\nexport AWS_ACCESS_KEY_ID="{SECRET}"\n'
    return request


def answer_event(index: int, last: bool = False) -> dict[str, Any]:
    """Return one event of a streamed answer, of about 700 bytes."""
    rnd = random.Random(index)  # noqa: S311  # texts of a benchmark
    part: dict[str, Any] = {"text": _code(rnd, 7)}
    if index < 3:
        part = {"thought": True, "text": f"**Reading the code**\n\n{WORDS * 4}\n\n"}
    candidate: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": 0}
    return {
        "candidates": [{**candidate, "finishReason": "STOP"} if last else candidate],
        "usageMetadata": {
            "promptTokenCount": 25_000,
            "candidatesTokenCount": index,
            "totalTokenCount": 25_000 + index,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25_000}],
            "thoughtsTokenCount": 212,
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "pu8AabcD",
    }


def answer_stream(events: int = EVENTS) -> list[bytes]:
    """Return the data of each event of a streamed answer."""
    return [orjson.dumps(answer_event(i, i == events - 1)) for i in range(events)]


def function_call_answer() -> dict[str, Any]:
    """Return a unary answer of about 3 KB with a thought, a text and a function call."""
    rnd = random.Random(7)  # noqa: S311  # texts of a benchmark
    call = {"functionCall": {"name": "replace", "args": _arguments(rnd, "replace", 7)}}
    answer = answer_event(1, last=True)
    answer["candidates"][0]["content"]["parts"] = [
        {"text": "**Planning the change**\n\n" + WORDS * 5, "thought": True},
        {"text": "I will change the parser first, then run its tests."},
        {**call, "thoughtSignature": _signature(rnd)},
    ]
    return answer


def _turns(rnd: random.Random, number: int, result_bytes: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a step of the agent's task: a call with a thought signature, its result, and sometimes a text.

    The result has about `result_bytes` bytes, if given.
    """
    name, _ = rnd.choice(_TOOLS[:7])
    call = {"functionCall": {"name": name, "args": _arguments(rnd, name, number)}}
    parts: list[dict[str, Any]] = [{**call, "thoughtSignature": _signature(rnd)}]
    if number % 3 == 0:
        parts.insert(
            0, {"text": f"Step {number}: I’ll look at `{rnd.choice(_NAMES)}.py` → then run the tests."}
        )
    yield {"role": "model", "parts": parts}
    output = _output(rnd)
    while len(output) < result_bytes:
        output += _output(rnd)
    output = output[: result_bytes or None]
    result = {"functionResponse": {"id": f"{name}-{number}", "name": name, "response": {"output": output}}}
    yield {"role": "user", "parts": [result]}
    if number % 8 == 7:
        yield {"role": "model", "parts": [{"text": "All tests pass now. ✅ " + WORDS * 3}]}
        yield {"role": "user", "parts": [{"text": f"now do the same for {rnd.choice(_NAMES)}"}]}


def _arguments(rnd: random.Random, name: str, number: int) -> dict[str, Any]:
    path = f"/home/dev/project/src/{rnd.choice(_NAMES)}/{rnd.choice(_NAMES)}_{number}.py"
    match name:
        case "write_file":
            return {"file_path": path, "content": _code(rnd, 40)}
        case "replace":
            return {"file_path": path, "old_string": _code(rnd, 9), "new_string": _code(rnd, 11)}
        case "run_shell_command":
            return {"command": f'cd src && grep -rn "def {rnd.choice(_NAMES)}" . | sed -e \'s/"/\\\\"/g\''}
        case _:
            return {"file_path": path, "pattern": rf"class\s+{rnd.choice(_NAMES).title()}\b"}


def _output(rnd: random.Random) -> str:
    """Return what a tool prints: a file, JSON, the matches of a search, or the log of a test run."""
    match rnd.randrange(4):
        case 0:
            return _code(rnd, 70)
        case 1:
            value = {
                "results": [
                    {name: rnd.random(), "name": f"{name} of\t{i}"} for i, name in enumerate(_NAMES * 3)
                ]
            }
            return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        case 2:
            matches = [f"src/{rnd.choice(_NAMES)}.py:{i * 7}: {_line(rnd)}\n" for i in range(40)]
            return "".join(
                [*matches, 'src/config.py:12:    token = os.environ["API_TOKEN"]  # never in a file\n']
            )
        case _:
            return "".join(
                f"tests/test_{rnd.choice(_NAMES)}.py::test_{i} \x1b[32mPASSED\x1b[0m [{i:3}%]\n"
                for i in range(45)
            )


def _code(rnd: random.Random, lines: int) -> str:
    return "".join(f"{_line(rnd)}\n" for _ in range(lines))


def _line(rnd: random.Random) -> str:
    one, two = rnd.choice(_NAMES), rnd.choice(_NAMES)
    return rnd.choice(
        (
            f"def {one}_of(self, {two}: str) -> dict[str, int]:",
            f'    if not {one}.get("{two}"):',
            f'        raise ValueError(f"no {one} in {{{two}!r}}: expected \\"{one}\\"")',
            f"    {one} = [{two} for {two} in self.{one}s if {two}.size > {rnd.randrange(999)}]",
            f'    "{one}": {{"type": "string", "pattern": "^\\\\w+$", "{two}": {rnd.randrange(99)}}},',
            f"    # the {one} of a {two} is known only when its {one} has ended",
            f"    return self._{one}[{two}:{rnd.randrange(99)}]",
            "",
        )
    )


def _declaration(name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    properties = {
        key: {"type": "string", "description": f'The "{key}" of {name}. {WORDS * 2}'} for key in keys
    }
    schema = {"type": "object", "properties": properties, "required": [keys[0]]}
    return {"name": name, "description": f"{name}: {WORDS * 7}", "parametersJsonSchema": schema}


def _context() -> str:
    folders = "".join(f"│   ├───{name}/\n│   │   └───{name}.py\n" for name in _NAMES)
    return f"<session_context>\nThis is a coding agent. Today is Friday.\n{folders}</session_context>"


def _instruction(rnd: random.Random) -> str:
    sections = (
        f"# {one.title()} and {two}\n\n- **{one.title()}:** {WORDS * 8}\n- `{two}`: {WORDS * 5}\n\n"
        f"```python\n{_code(rnd, 8)}```\n\n"
        for one, two in zip(_NAMES * 2, _NAMES[3:] * 3, strict=False)
    )
    return "You are a coding agent. " + "".join(sections)


def _signature(rnd: random.Random) -> str:
    return base64.b64encode(rnd.randbytes(400)).decode()
