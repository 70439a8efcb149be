"""Query parameters of served routes: which are forwarded, and the removal of the key."""

import pytest
from support.gateway.routes import CALL, refused

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import match


def test_the_query_is_forwarded_unchanged() -> None:
    route = match("GET", "/v1/models?filter=a%2Bb+c&pageSize=5&pageToken=")
    assert route.query == "filter=a%2Bb+c&pageSize=5&pageToken="


@pytest.mark.parametrize(
    ("query", "left"),
    [("key=a%2Bb", ""), ("key=a%2Bb&alt=sse", "alt=sse"), ("alt=s%73e&%6bey=a%2Bb", "alt=s%73e")],
)
def test_the_key_is_taken_out_of_the_query(query: str, left: str) -> None:
    route = match("POST", f"/v1/models/m:streamGenerateContent?{query}")
    assert (route.api_key, route.query) == ("a+b", left)


@pytest.mark.parametrize("key", ["a%0d%0aX-Evil:b", "a%20b", "%c3%a9", "a+b"])
def test_a_key_that_is_not_valid_in_a_header_is_refused(key: str) -> None:
    assert refused(f"{CALL}?key={key}").code == 400


@pytest.mark.parametrize("query", ["alt=json", "alt=", ""])
def test_harmless_parameters_pass(query: str) -> None:
    assert match("POST", f"{CALL}?{query}").query == query


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("fields=candidates", "fields"),
        ("PrettyPrint=false", "PrettyPrint"),
        ("callback=f", "callback"),
        ("Alt=sse", "Alt"),
        ("pageSize=1", "pageSize"),
        ("x", "x"),
    ],
)
def test_an_unknown_parameter_is_refused_by_name(query: str, named: str) -> None:
    refusal = refused(f"{CALL}?{query}")
    assert refusal.code == 400
    assert repr(named) in refusal.message


@pytest.mark.parametrize("query", ["alt=json&alt=json", "key=a&key=b", "alt=json&%61lt=json"])
def test_a_repeated_parameter_is_refused(query: str) -> None:
    refusal = refused(f"{CALL}?{query}")
    assert refusal.code == 400
    assert "repeated" in refusal.message


@pytest.mark.parametrize(
    "query",
    [
        "$alt=json",
        "%24alt=json%3Benum-encoding%3Dint",
        "$alt=json;enum-encoding=int",
        "prettyPrint=true",
        "$prettyPrint=x",
    ],
)
def test_how_the_answer_is_written_is_not_left_to_the_client(query: str) -> None:
    route = match("POST", f"/v1/models/m:streamGenerateContent?alt=sse&{query}")
    assert (route.alt, route.query) == ("sse", "alt=sse")


@pytest.mark.parametrize("value", ["proto", "sse", "media", "json;enum-encoding=string", "JSON", ""])
def test_an_unknown_form_of_the_answer_is_refused(value: str) -> None:
    refusal = refused(f"{CALL}?$alt={value}")
    assert (refusal.code, "$alt=" in refusal.message) == (400, True)


@pytest.mark.parametrize("value", ["media", "proto", "SSE", "sse;x", "sse%00"])
def test_an_unknown_alt_is_refused(value: str) -> None:
    assert refused(f"/v1/models/m:streamGenerateContent?alt={value}").code == 400


def test_server_sent_events_are_for_streams_only() -> None:
    assert match("POST", "/v1/models/m:streamGenerateContent?alt=sse").alt == "sse"
    assert refused(f"{CALL}?alt=sse").code == 400
    assert refused("/v1/models/m:countTokens?alt=sse").code == 400


@pytest.mark.parametrize("character", ["é", "\0", "\x7f", " "])
def test_a_character_that_needs_to_be_encoded_is_refused(character: str) -> None:
    assert match("GET", "/v1beta/models?pageToken=a").query == "pageToken=a"
    with pytest.raises(ApiError, match="percent-encode"):
        match("GET", f"/v1beta/models?pageToken={character}")


def test_a_fragment_that_would_cut_the_query_short_is_refused() -> None:
    # The upstream would never hear of alt=sse, and answer in the other framing.
    assert refused("/v1/models/m:streamGenerateContent?key=a#&alt=sse").code == 400
