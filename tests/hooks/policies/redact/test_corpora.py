"""`redact` misses no secret planted in the output of tools, however the text is split."""

import random
import sysconfig
from pathlib import Path

import pytest
from support.texts.corpora import CORPORA, left_of, material, secrets
from support.texts.secrets import PLANTED, cut, redacted

from hookgate.hooks.policies.redact import Scanner

FILES = Path(sysconfig.get_paths()["purelib"]) / "aiohttp"


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CORPORA])
def test_no_planted_secret_is_missed(scanner: Scanner, name: str, tmp_path: Path) -> None:
    """A small sample of what `python -m benchmarks.detection` counts."""
    rnd = random.Random(name)  # noqa: S311  # it makes texts
    planted = secrets(rnd, len(PLANTED) + 5)
    text = CORPORA[name](rnd, tmp_path, material(rnd, FILES, 2_000), planted)
    out = redacted(scanner, text)
    missed = [each for each in planted if left_of(each, out, encoded="kubectl" in name)]
    assert missed == []
    assert redacted(scanner, *cut(rnd, text, 400)) == out
    beginning = text[:1000]
    assert redacted(scanner, *cut(rnd, beginning, 5)) == redacted(scanner, beginning)


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CORPORA])
def test_splits_of_what_is_printed_give_the_same(scanner: Scanner, name: str, tmp_path: Path) -> None:
    rnd = random.Random(f"{name} split")  # noqa: S311  # it makes texts
    text = CORPORA[name](rnd, tmp_path, material(rnd, FILES, 400), secrets(rnd, 3))
    out = redacted(scanner, text)
    splits = range(rnd.randrange(1, 6), len(text), 5)
    assert [at for at in splits if redacted(scanner, text[:at], text[at:]) != out] == []
