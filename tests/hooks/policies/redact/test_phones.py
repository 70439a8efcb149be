"""Telephone numbers as countries write them: what is found, what stays, and every split of a stream."""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.hooks.builtins import make_policy
from support.texts.countries import LARGEST_ECONOMIES
from support.texts.secrets import LOOKALIKES, cut, redacted

from hookgate.hooks import SessionContext
from hookgate.hooks.policies.redact import SENSITIVE, Scanner, shared_scanner
from hookgate.hooks.policies.redact.detectors import numbering_plans
from hookgate.hooks.policies.redact.detectors.phones import PHONES, phones_of
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.runners.inprocess import PolicyEnvironment

Json = dict[str, Any]

NUMBERS = {
    # by country: a number alone in a sentence, and one after a word that tells what it is
    "US": ("(212) 555 0142", "2125550142"),
    "CA": ("416-555-0142", "4165550142"),
    "GB": ("020 7946 0018", "07400123456"),
    "DE": ("030 12345678", "17612345678"),
    "FR": ("01.84.17.61.18", "0612345678"),
    "IT": ("0341 838 7176", "3471234567"),
    "ES": ("699 956 915", "699956915"),
    "BR": ("(71) 4233-6306", "11987654321"),
    "IN": ("098765 43210", "9876543210"),
    "CN": ("010-6552-9988", "13812345678"),
    "JP": ("03-3580-3311", "09012345678"),
    "KR": ("02-312-3456", "01012345678"),
    "RU": ("8 (495) 123-45-67", "9161234567"),
    "AU": ("(08) 8747 6301", "0412345678"),
    "MX": ("(55) 5123 4567", "5512345678"),
    "TR": ("0532 123 45 67", "5321234567"),
    "NL": ("020-6241111", "612345678"),
    "PL": ("601 123 456", "601123456"),
    "CH": ("056 590 36 33", "0791234567"),
    "BE": ("0490 75 40 81", "0490754081"),
    "SE": ("08-123 456 78", "0701234567"),
    "AT": ("01 5880023", "06641234567"),
    "AR": ("011 4123-4567", "01115-2345-6789"),
    "NO": ("", "9472 7916"),
    "DK": ("", "60-56-85-91"),
    "SG": ("", "91234567"),
    "HK": ("", "5123 4567"),
    "ZA": ("083 564 9312", "0835649312"),
    "IL": ("052-234-5678", "0522345678"),
    "ID": ("0812-3456-7890", "081234567890"),
}
ALONE = [pytest.param(country, each[0], id=country) for country, each in NUMBERS.items() if each[0]]
TOLD = [pytest.param(country, each[1], id=country) for country, each in NUMBERS.items()]


@pytest.fixture(scope="module")
def everywhere() -> Scanner:
    return shared_scanner([*SENSITIVE, *phones_of(LARGEST_ECONOMIES)])


def scanner_for(country: str) -> Scanner:
    return shared_scanner([*PHONES, *phones_of((country,))])


@pytest.mark.parametrize(("country", "number"), ALONE)
def test_a_number_in_the_form_of_its_country_is_found_without_a_word(country: str, number: str) -> None:
    text = f"That is {number}, is it not?"
    for chunks in ([text], list(text)):
        assert redacted(scanner_for(country), *chunks) == "That is [PHONE], is it not?"


@pytest.mark.parametrize(("country", "number"), TOLD)
def test_a_number_after_a_word_is_found_in_any_form(country: str, number: str) -> None:
    scanner = scanner_for(country)
    for before in ("Phone: ", "mobile ", 'fax="', "call me on ", "Tel.:\n", '{\\"telephone\\":\\"'):
        text = f"{before}{number}\nand so on."
        for chunks in ([text], list(text)):
            assert redacted(scanner, *chunks) == f"{before}[PHONE]\nand so on."


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param(
            "28-64-66-98 office, 930.167.3943 fax", "[PHONE] office, [PHONE] fax", id="word after it"
        ),
        pytest.param("Desk: (898)666-3621x0135.", "Desk: [PHONE].", id="extension"),
        pytest.param("+1-903-140-4508x769 now", "[PHONE] now", id="extension abroad"),
        pytest.param("ring 0049 30 12345678 ext. 12!", "ring [PHONE]!", id="from abroad"),
        pytest.param("+46 (0)8 928 571 38 fax", "[PHONE] fax", id="area of one digit"),
        pytest.param("手机：13812345678。", "手机：[PHONE]。", id="Chinese"),
        pytest.param("тел. 89161234567", "тел. [PHONE]", id="Russian"),
        pytest.param("call 030 12345678 2 times", "call [PHONE] 2 times", id="other digits after it"),
        pytest.param("tel:+49 30 12345678", "tel:[PHONE]", id="international as before"),
    ],
)
def test_numbers_are_found_as_people_write_them(everywhere: Scanner, text: str, masked: str) -> None:
    for chunks in ([text], list(text)):
        assert redacted(everywhere, *chunks) == masked


@pytest.mark.parametrize(
    "text",
    [
        "on 2024-11-05 10:20:30, 05.11.2024, 2024 11 05, 20241105",
        "call 2024-11-05 at 10:20",
        "at 192.168.100.200 and 255.255.255.255/32, call 10.0.0.1",
        "version 1.2.840.113549.1.9.4, call 1.2.840.113549",
        "<Buffer 01 02 03 04 05 06 07 08>",
        "1024 2048, 100 200 300 400 500, 10 20 30 40 50 60",
        "Boston, MA 02110-1301, call stack CVE-2026-9358",
        "text 21306.0, ring 3.14159265",
        "order 699956915 of 60568591",
        "bug 854928, call 123456",
        "call 4111 1111 1111 1112",
    ],
)
def test_other_numbers_stay(everywhere: Scanner, text: str) -> None:
    assert redacted(everywhere, text) == redacted(everywhere, *text) == text


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in LOOKALIKES])
def test_what_only_looks_like_a_number_stays(name: str) -> None:
    numbers = shared_scanner(phones_of(LARGEST_ECONOMIES))
    rnd = random.Random(name)  # noqa: S311  # it makes texts
    texts = [f"see {LOOKALIKES[name](rnd)} there" for _ in range(200)]
    assert [text for text in texts if redacted(numbers, text) != text] == []


def test_a_card_after_a_word_for_telephones_is_a_card(everywhere: Scanner) -> None:
    assert redacted(everywhere, "call about 4111 1111 1111 1111") == "call about [CARD]"


def test_numbers_of_other_countries_stay() -> None:
    assert (
        redacted(scanner_for("FR"), "so 030 12345678, phone: 9472 7916")
        == "so 030 12345678, phone: 9472 7916"
    )


TEXT = "so 0490 75 40 81; call me on 9472 7916, 28-64-66-98 office (71) 4233-6306x12 手机：13812345678 ok"
MASKED = "so [PHONE]; call me on [PHONE], [PHONE] office [PHONE] 手机：[PHONE] ok"


def event(part: Json) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}}]}


def in_texts(pieces: list[str]) -> str:
    out = streamed_parts([event({"text": piece}) for piece in pieces])
    return "".join(part["text"] for part in out)


def in_arguments(pieces: list[str]) -> str:
    partial = [{"jsonPath": "$.note", "stringValue": each, "willContinue": True} for each in pieces]
    events = [event({"functionCall": {"partialArgs": [each], "willContinue": True}}) for each in partial]
    out = streamed_parts([*events, event({"functionCall": {}})])
    return "".join(
        each["stringValue"] for part in out for each in part["functionCall"].get("partialArgs", ())
    )


POLICY: Any = redact_policy(
    {"detect": ["personal"], "phones": [*LARGEST_ECONOMIES]}, PolicyEnvironment(Path("/"))
)


def streamed_parts(events: list[Json]) -> list[Json]:
    screen = POLICY.screen(SessionContext("s-1"))
    out = [body for each in [*events, None] for _, body in screen.feed([each] if each else [], last=not each)]
    return [part for body in out for part in body["candidates"][0]["content"]["parts"]]


@pytest.mark.parametrize(
    "way", [pytest.param(in_texts, id="texts"), pytest.param(in_arguments, id="arguments")]
)
def test_every_split_of_a_stream_gives_the_same(way: Callable[[list[str]], str]) -> None:
    for at in range(len(TEXT) + 1):
        assert way([TEXT[:at], TEXT[at:]]) == MASKED, at
    assert way([*TEXT]) == MASKED
    rnd = random.Random(7)  # noqa: S311  # it makes texts
    for _ in range(20):
        assert way(cut(rnd, TEXT)) == MASKED


@pytest.mark.parametrize(
    "before", ["\\n", "\\\\n", "%20", "\x1b[31m", "_", '\\"', "\\u0022", "> ", "+", "12:"]
)
def test_a_number_behind_an_escape_or_a_prefix_of_a_line_is_found(everywhere: Scanner, before: str) -> None:
    if before in ("+", "12:"):
        before += " "
    for number in ("0490 75 40 81", "phone: 9472 7916"):
        text = f"a {before}{number} b"
        assert "[PHONE]" in redacted(everywhere, text), text
        assert redacted(everywhere, *text) == redacted(everywhere, text)


def test_the_option_finds_numbers_with_and_without_a_country_code() -> None:
    policy: Any = redact_policy({"phones": ["DE"]}, PolicyEnvironment(Path("/")))
    screen = policy.screen(SessionContext("s-1"))
    [(_, body)] = screen.feed([event({"text": "030 12345678, +33 1 84 17 61 18, a@example.org"})], last=True)
    assert body["candidates"][0]["content"]["parts"] == [{"text": "[PHONE], [PHONE], a@example.org"}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"phones": ["UK"]}, "phones: unknown country 'UK'; did you mean GB?"),
        ({"phones": ["DE", "fr"]}, "phones: unknown country 'fr'; did you mean FR?"),
        ({"phones": ["Germany"]}, "phones: unknown country 'Germany'; use codes of ISO 3166"),
        ({"phones": "DE"}, "phones: must be a list"),
        ({"phones": ["DE"], "skip": ["PHONE"], "detect": ["PHONE"]}, "no detector is enabled"),
    ],
)
def test_a_country_that_is_not_known_is_reported(options: Json, expected: str) -> None:
    with pytest.raises(ValueError, match=r"phones|enabled") as error:
        make_policy(redact_policy, options)
    assert expected in str(error.value)


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    numbering_plans.countries_with_plans.cache_clear()
    with pytest.raises(
        ValueError, match="phones: phonenumbers is not installed; install hookgate with its extra phones"
    ):
        make_policy(redact_policy, {"phones": ["DE"]})
    numbering_plans.countries_with_plans.cache_clear()
