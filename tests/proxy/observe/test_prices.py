"""The price table: costs of calls, and messages about mistakes in the table."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.places import EXAMPLES

from hookgate.proxy.config import ConfigError
from hookgate.proxy.observe.usage import Prices, read_prices

EXAMPLE = EXAMPLES / "prices.toml"
TABLE = """
currency = "EUR"

[models."gemini-*-pro"]
input = 1
cached = 0.25
output = 10.0

[[models."gemini-*-pro".above]]
tokens = 200_000
input = 2
output = 20

[[models."gemini-*-pro".above]]
tokens = 500_000
input = 4
cached = 1
output = 40

[models."gemini-*"]
input = 0.1
output = 1
"""
PRO, MILLION = "gemini-2.5-pro", 1_000_000


def table(folder: Path, text: str = TABLE) -> Path:
    path = folder / "prices.toml"
    path.write_text(text)
    return path


@pytest.fixture
def prices(tmp_path: Path) -> Prices:
    found = read_prices(table(tmp_path))
    assert found
    return found


@pytest.mark.parametrize(
    ("model", "tokens", "cost"),
    [
        pytest.param(PRO, (100_000, 0), 0.1, id="input"),
        pytest.param(PRO, (0, 100_000), 1.0, id="output"),
        pytest.param(PRO, (100_000, 0, 60_000), 0.055, id="partly cached"),
        pytest.param(PRO, (100_000, 0, 200_000), 0.025, id="more cached than there is"),
        pytest.param(PRO, (200_000, 1000), 0.21, id="at a bound"),
        pytest.param(PRO, (200_001, 1000), 0.420002, id="above a bound"),
        pytest.param(PRO, (300_000, 0, 300_000), 0.6, id="cached without a price of its own"),
        pytest.param(PRO, (MILLION, MILLION, MILLION), 41, id="above the last bound"),
        pytest.param("gemini-2.5-flash", (MILLION, MILLION), 1.1, id="a later name"),
        pytest.param(PRO, (0, 0), 0, id="nothing"),
        pytest.param("other", (1, 1), None, id="no price"),
    ],
)
def test_a_call_costs_what_the_table_says(
    model: str, tokens: tuple[int, ...], cost: float | None, prices: Prices
) -> None:
    assert prices.cost(model, *tokens) == (None if cost is None else pytest.approx(cost))
    assert prices.knows(model) is (cost is not None)
    assert prices.currency == "EUR"


@given(
    tokens=st.integers(0, 10**7),
    more=st.integers(0, 10**7),
    output=st.integers(0, 10**6),
    cached=st.integers(0),
)
def test_more_tokens_never_cost_less(tokens: int, more: int, output: int, cached: int) -> None:
    example = read_prices(EXAMPLE)
    assert example
    cost, dearer = (example.cost(PRO, count, output) for count in (tokens, tokens + more))
    cheaper = example.cost(PRO, tokens, output, cached)
    assert cost is not None
    assert dearer is not None
    assert cheaper is not None
    assert 0 <= cheaper <= cost <= dearer


@pytest.mark.parametrize(
    ("model", "tokens", "cost"),
    [
        ("gemini-2.5-pro", (100_000, 10_000, 40_000), 0.18),
        ("gemini-2.5-pro", (300_000, 10_000), 0.9),
        ("gemini-2.5-flash", (MILLION, MILLION), 2.8),
        ("gemini-3.1-flash-lite-preview", (MILLION, 0, MILLION), 0.025),
        # Of models with other prices for the same tokens, such as those for images and speech, none is known.
        ("gemini-2.5-flash-image", (1, 1), None),
        ("gemini-2.5-flash-preview-tts", (1, 1), None),
        ("gemini-9", (1, 1), None),
    ],
)
def test_without_a_file_there_are_the_list_prices(
    model: str, tokens: tuple[int, ...], cost: float | None
) -> None:
    shipped = read_prices(None)
    assert shipped.cost(model, *tokens) == (None if cost is None else pytest.approx(cost))
    assert (shipped.currency, len(shipped.date or "")) == ("USD", len("2026-07-24"))


def test_a_file_replaces_the_list_prices(prices: Prices) -> None:
    assert prices.date is None
    assert prices.cost("gemini-3.5-flash", MILLION, 0) == pytest.approx(0.1)


def test_the_example_knows_the_models_of_the_day() -> None:
    example = read_prices(EXAMPLE)
    assert example
    assert example.knows("gemini-2.5-pro")
    assert example.knows("gemini-2.5-flash-lite")
    assert "made up" in EXAMPLE.read_text()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param('currency = "EUR"\n', "", ": currency: is missing", id="no currency"),
        pytest.param("output = 1\n", "", ":20: models.gemini-*.output: is missing", id="no output"),
        pytest.param(
            "input = 0.1", "input = '0.1'", ":21: models.gemini-*.input: must be a number", id="text"
        ),
        pytest.param(
            "input = 0.1", "input = -1", ":21: models.gemini-*.input: must be at least 0", id="below zero"
        ),
        pytest.param(
            "input = 0.1", "input = inf", ":21: models.gemini-*.input: must be a finite number", id="inf"
        ),
        pytest.param(
            "cached = 0.25",
            "chached = 0.25",
            ":6: models.gemini-*-pro.chached: is not known; remove it",
            id="misspelt",
        ),
        pytest.param(
            "500_000",
            "200_000",
            ":4: models.gemini-*-pro: above: the tokens must increase from one tier to the next",
            id="bounds",
        ),
        pytest.param(
            "tokens = 200_000\n", "", "models.gemini-*-pro.above[0].tokens: is missing", id="no bound"
        ),
        pytest.param(TABLE, "currency = 'EUR'\nmodels = {}", ":2: models: ", id="no models"),
        pytest.param("currency =", "currency", ": is not valid TOML: ", id="not TOML"),
    ],
)
def test_mistakes_are_reported_with_file_and_key(
    before: str, after: str, expected: str, tmp_path: Path
) -> None:
    assert before in TABLE
    path = table(tmp_path, TABLE.replace(before, after, 1))
    with pytest.raises(ConfigError) as raised:
        read_prices(path)
    [problem] = raised.value.problems
    assert problem.startswith(str(path))
    assert expected in problem


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read_prices(table(tmp_path, TABLE.replace("output", "ouput")))
    assert len(raised.value.problems) == 8


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^prices\.file: .*prices\.toml: cannot be read: No such file"):
        read_prices(tmp_path / "prices.toml")
