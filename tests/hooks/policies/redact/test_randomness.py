"""What looks random, and what does not."""

import random
import string
import sysconfig
from pathlib import Path

import pytest
from support.texts.corpora import material
from support.texts.secrets import ALNUM, HEX, URL64, some

from hookgate.hooks.policies.redact.detectors.randomness import is_random, strangeness

MADE = {
    "letters and digits": (ALNUM, 24),
    "small letters and digits": (string.ascii_lowercase + string.digits, 20),
    "base64 for addresses": (URL64, 32),
    "hexadecimal": (HEX, 32),
    "long hexadecimal": (HEX, 64),
}


@pytest.mark.parametrize("name", list(MADE))
def test_nearly_all_generated_text_is_random(name: str) -> None:
    alphabet, length = MADE[name]
    rnd = random.Random(name)  # noqa: S311  # it makes texts
    assert sum(is_random(some(rnd, alphabet, length)) for _ in range(2000)) > 1950


def test_nearly_no_words_of_real_files_are() -> None:
    rnd = random.Random(1)  # noqa: S311  # it chooses files
    lines = material(rnd, Path(sysconfig.get_paths()["purelib"]) / "aiohttp", 300_000)
    words = {word for line in lines for word in line.split() if len(word) >= 12}
    assert len(words) > 2000
    assert sum(map(is_random, words)) < len(words) / 300


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-05T10:20:30.123456",
        "getUserNameFromRequest2",
        "00000000-0000-0000-0000-000000000000",
        "your_api_key_1a2b3c4d5e6f",
        "xxxxxxxxxxxxxxxxxxxxxxxx",
        "example1a2b3c4d5e6f7g8h",
        "12345678901234567890",
        "deadbeefcafebabeaaaaaaaa",
        "a1b2c3",
    ],
)
def test_words_times_and_placeholders_are_not(text: str) -> None:
    assert not is_random(text)


def test_text_without_pairs_is_not_strange() -> None:
    assert strangeness("a-b-c") == 0
