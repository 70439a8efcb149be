"""The cost of redaction is linear in the length of the text, even for crafted text."""

import contextlib
import inspect
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.hooks.builtins import SENSITIVE
from support.texts.secrets import redacted

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact import Scanner, words_detectors
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policies.redact.scanner import TakesLong
from hookgate.hooks.policy_environment import PolicyEnvironment

CRAFTED = [
    *(
        "4",
        "4111111111111112 ",
        "eyJ",
        "eyJ-",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----\n",
        "a@",
        "a@b.",
        "sk-",
    ),
    *(
        "password=",
        "password=abcdefg1 ",
        "password='a1",
        "bearer ",
        "Bearer a1",
        "a.b-c+d",
        "x%3A%2F%2Fa%3Ab",
        "x://a:b",
        "+49 30 ",
    ),
    *(
        "12345678A ",
        "password=aA1a",
        "password=abcdefghi1(",
        'password="a1',
        "token=<1",
        "\\n",
        "%20",
        "[31m",
        "-----BEGIN PRIVATE KEY-----abcdefghijklmnopqrstuvwxyzABCDE ",
        f"-----BEGIN PRIVATE KEY-----{'Ab1+' * 16}",
        "data:\n  a: b\n  c: ",
        '"data": {"a": "b", "c": "',
    ),
    *(
        "ghp_",
        "glpat-",
        "sk-ant-a",
        "pat-na1-",
        "sk_live_a1b2c3d4e5f6g7h8 ",
        "license key ",
        "key=aA1aA1aA1aA1aA1aA1 ",
        "secret-",
        "secret private access ",
        "asana: a1",
        "login a password ",
        "$2b$12$",
        "key_aaaaaaaaaaaaaa1",
        "private-a1",
        "key=aaa1aa1",
        "key\\\\",
        "sk-ant-aB1aB2aB3aB4aB5aB6aB7aB8example-",
        "github_pat_",
        "eyJaaaaaaaaaaaaaaaa.",
    ),
    *("eyJ-AKIAABCDEFGHIJKLMNOP-", "DE12 3456 ", "1 22 333 ", "é", "AKIA", "a1@b.co.1"),
]


@pytest.mark.parametrize("unit", [pytest.param(unit, id=unit.strip() or "space") for unit in CRAFTED])
def test_crafted_text_costs_the_same_for_each_character(scanner: Scanner, unit: str) -> None:
    """Eight times the text may take 24 times as long; a quadratic search would take 64 times.

    Short texts tell nothing: RE2 searches up to some thousand characters in a quicker way.
    """

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        begin = time.process_time()
        redacted(scanner, text)
        return time.process_time() - begin

    seconds(20_000)
    short = min(seconds(20_000) for _ in range(3))
    # On a machine that is busy with something else, the best of a few runs tells.
    assert any(seconds(160_000) < 24 * short + 0.005 for _ in range(5))


@pytest.mark.parametrize(
    "unit",
    ["Blue ", "Blue%20", "Blue\u200b", "B\u00ad", "%42lu%65+", "\\", "\\u0042", "Blue Heron ", "Ｂｌｕｅ"],
)
def test_text_like_a_disguised_word_costs_the_same_for_each_character(unit: str) -> None:
    """Sixteen times the text may take 64 times as long; a quadratic search would take 256 times."""
    words = Scanner(words_detectors("NAME", ["Blue Heron", "Blue Blue Blue Moon"], ignore_case=True))

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        begin = time.process_time()
        redacted(words, text)
        return time.process_time() - begin

    seconds(5_000)
    small = min(seconds(5_000) for _ in range(3))
    assert any(seconds(80_000) < 40 * small + 0.005 for _ in range(3))


@pytest.mark.parametrize("unit", ["12345678A ", "a1@b.co.1", "x://a:b@c ", "password=aA1a "])
def test_a_brief_search_of_a_long_text_gives_up_soon(unit: str) -> None:
    policy: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
    body = {"contents": [{"role": "user", "parts": [{"text": unit * (250_000 // len(unit))}]}]}
    event = {"hook_event_name": "BeforeModel", "llm_request": {"raw": body}}
    tried = 0
    original = Scanner._at

    def at(*of: Any) -> Any:
        nonlocal tried
        tried += 1
        return original(*of)

    with mock.patch.object(Scanner, "_at", at), contextlib.suppress(TakesLong):
        policy._judge(event, SessionContext("s"), brief=True)
    assert tried <= 2000


def test_a_brief_search_of_many_short_texts_gives_up_soon() -> None:
    policy: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
    contents = [
        {"role": role, "parts": [{"text": f"mail-{number}@example.org"}]}
        for number, role in enumerate(["user", "model"] * 500)
    ]
    event = {"hook_event_name": "BeforeModel", "llm_request": {"raw": {"contents": contents}}}
    with pytest.raises(TakesLong):
        policy._judge(event, SessionContext("s"), brief=True)
    del contents[40:]
    policy._judge(event, SessionContext("s"), brief=True)


@pytest.mark.parametrize(
    "request_shown",
    [
        {"raw": {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"x" * 300_000: 1}}}]}]}},
        {"raw": {"contents": []}, "beside": {"project": "x" * 300_000}},
    ],
    ids=["names of fields", "beside the request"],
)
async def test_a_long_request_is_searched_in_a_thread(request_shown: Any) -> None:
    policy: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))
    said = policy({"hook_event_name": "BeforeModel", "llm_request": request_shown}, SessionContext("s"))
    assert inspect.isawaitable(said)
    await said


def test_many_names_of_fields_that_become_one_mask_cost_the_same_each() -> None:
    """Eight times the names may take twenty times as long; a search of all numbers would take 64 times."""
    policy: Any = redact_policy({"detect": ["EMAIL"]}, PolicyEnvironment(Path("/")))

    def seconds(count: int) -> float:
        names = {f"mail-{number}@example.org": 1 for number in range(count)}
        calls = [{"functionCall": {"name": "f", "args": names}}]
        body = {"contents": [{"role": "model", "parts": calls}]}
        begin = time.process_time()
        said = policy._judge(
            {"hook_event_name": "BeforeModel", "llm_request": {"raw": body}}, SessionContext("s"), brief=False
        )
        took = time.process_time() - begin
        [part] = said["hookSpecificOutput"]["llm_request"]["raw"]["contents"][0]["parts"]
        assert list(part["functionCall"]["args"]) == [
            "[EMAIL]",
            *(f"[EMAIL]_{n}" for n in range(2, count + 1)),
        ]
        return took

    small = min(seconds(1_000) for _ in range(3))
    assert any(seconds(8_000) < 20 * small + 0.005 for _ in range(3))
