"""Every kind, however its line is printed, at every split: in streams, arguments, turns and results.

`make test` takes a sample. `make slow`, or `pytest -m slow tests/hooks/policies/redact`, takes all lines,
and all splits of streams, which lasts half an hour.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.hooks.builtins import run_policy
from support.texts.formats import example
from support.texts.printed import LINES
from support.texts.secrets import PLANTED

from hookgate.hooks import SessionContext
from hookgate.hooks.key_checksums import is_hookgate_key
from hookgate.hooks.policies.redact import Detector
from hookgate.hooks.policies.redact.detectors.checks import is_base58
from hookgate.hooks.policies.redact.detectors.issued import ISSUED
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import PolicyEnvironment

Json = dict[str, Any]
Way = Callable[..., str]
POLICY: Any = redact_policy({"detect": ["credentials", "personal"]}, PolicyEnvironment(Path("/")))
STEP = 7
"""Between the splits of what is slow."""


def of_row(row: Detector) -> tuple[str, str, str]:
    rnd = random.Random(f"{row.kind}{row.pattern}")  # noqa: S311  # a made-up key
    while True:
        before, secret, after = example(rnd, row)
        if "\\" not in before + secret + after:
            glued = (
                "aB3" if row.kind == "AZURE_SECRET" else ""
            )  # it is found after its first three characters
            return glued + before, secret, after


def of_label(label: str) -> tuple[str, str, str]:
    before, after, make = PLANTED[label]
    return before, make(random.Random(label)), after  # noqa: S311  # a made-up secret


def kinds() -> Iterator[Any]:
    for place, row in enumerate(ISSUED):
        if row.check not in (is_hookgate_key, is_base58):  # no random text has their check digits
            yield pytest.param(partial(of_row, row), id=f"{row.kind} {place}")
    for label in PLANTED:
        yield pytest.param(partial(of_label, label), id=label)


KINDS = list(kinds())


def lines_with(planted: tuple[str, str, str]) -> Iterator[str]:
    """The lines in which a secret is printed."""
    text = "".join(planted)
    if "\n" not in text and '"' not in text and "'" not in text:
        for line in LINES.values():
            yield line.format(text) + "\n"
    yield f"so {text} is\n"
    yield json.dumps({"body": f"so {text} is"})
    yield json.dumps({"body": json.dumps({"note": f"first\n{text}\n"})})


def redact_stream(*chunks: str) -> str:
    """The text of an answer that comes in these chunks."""
    return _answer([{"text": chunk} for chunk in chunks], lambda part: part["text"])


def redact_arguments(*chunks: str) -> str:
    """The argument of a call that comes in these pieces."""
    calls = [
        {
            "functionCall": {
                "name": "sh",
                "partialArgs": [{"jsonPath": "$.command", "stringValue": chunk}],
                "willContinue": place + 1 < len(chunks),
            }
        }
        for place, chunk in enumerate(chunks)
    ]
    return _answer(calls, lambda part: part["functionCall"]["partialArgs"][0].get("stringValue", ""))


def _answer(parts: list[Json], text_of: Callable[[Json], str]) -> str:
    screen = POLICY.screen(SessionContext("s-1"))
    bodies = [{"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts]
    steps = [*(screen.feed([body], last=False) for body in bodies), screen.feed([], last=True)]
    sent = (body["candidates"][0]["content"]["parts"] for step in steps for _, body in step)
    return "".join(text_of(part) for some in sent for part in some)


def redact_turns(*chunks: str) -> str:
    """The text of turns of one speaker in a request."""
    contents = [{"role": "user", "parts": [{"text": chunk}]} for chunk in chunks]
    return "".join(part["text"] for content in _redact_contents(contents) for part in content["parts"])


def redact_result(text: str) -> str:
    """The result of a tool in a request, without quotes and escapes of JSON around it."""
    result = {"functionResponse": {"name": "read", "response": {"output": text, "lines": [text]}}}
    [content] = _redact_contents([{"role": "user", "parts": [result]}])
    response = content["parts"][0]["functionResponse"]["response"]
    return str(response["output"] + response["lines"][0])


def _redact_contents(contents: list[Json]) -> Any:
    event = {"hook_event_name": "BeforeModel", "llm_request": {"model": "m", "raw": {"contents": contents}}}
    output = run_policy(POLICY, event)
    return contents if output is None else output["hookSpecificOutput"]["llm_request"]["raw"]["contents"]


def find_missed(secret: str, line: str, cuts: dict[Way, list[int]]) -> list[tuple[str, int]]:
    """The ways and splits at which a secret is not found, or more or less of the line is replaced."""
    found = []
    told = max(re.findall("[A-Za-z0-9]+", secret), key=len)  # the same however it is escaped
    for way, places in cuts.items():
        whole = way(line)
        if told in whole:
            found.append((way.__name__, 0))
        found += [(way.__name__, at) for at in places if way(line[:at], line[at:]) != whole]
    return found


@pytest.mark.parametrize("first", range(0, len(KINDS), 20))
def test_a_secret_is_found_at_some_splits(first: int) -> None:
    for kind in KINDS[first : first + 20]:
        planted = kind.values[0]()
        rnd = random.Random(planted[1])  # noqa: S311  # it chooses a line, and its splits
        line = rnd.choice(list(lines_with(planted)))
        cuts: dict[Way, list[int]] = {
            way: [rnd.randrange(1, len(line))] for way in (redact_stream, redact_arguments, redact_turns)
        }
        assert find_missed(planted[1], line, {**cuts, redact_result: []}) == [], (kind.id, line)


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS)
def test_a_secret_is_found_at_every_split(make: Callable[[], tuple[str, str, str]]) -> None:
    planted = make()
    for line in lines_with(planted):
        every, some = list(range(1, len(line))), list(range(1, len(line), STEP))
        cuts: dict[Way, list[int]] = {
            redact_stream: every,
            redact_arguments: some,
            redact_turns: some,
            redact_result: [],
        }
        assert find_missed(planted[1], line, cuts) == [], line
