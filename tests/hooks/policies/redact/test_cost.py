"""What redaction costs: the same for each character, however the text was crafted."""

import time

import pytest
from support.secrets import redacted

from hookgate.hooks.policies.redact import Scanner

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
    *("eyJ-AKIAABCDEFGHIJKLMNOP-", "DE12 3456 ", "1 22 333 ", "é", "AKIA", "a1@b.co.1"),
]


@pytest.mark.parametrize("unit", [pytest.param(unit, id=unit.strip() or "space") for unit in CRAFTED])
def test_crafted_text_costs_the_same_for_each_character(scanner: Scanner, unit: str) -> None:
    """Sixteen times the text may take forty times as long; a quadratic search would take 256 times."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        begin = time.process_time()
        redacted(scanner, text)
        return time.process_time() - begin

    seconds(10_000)
    small = min(seconds(10_000) for _ in range(3))
    assert min(seconds(160_000) for _ in range(2)) < 40 * small + 0.005
