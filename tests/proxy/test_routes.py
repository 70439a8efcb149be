"""The one table of what is served: what is routed where, and that nothing else is."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes import Route, match

CALL = "/v1beta/models/gemini-2.5-flash:generateContent"
FORWARDED = ["countTokens", "embedContent", "batchEmbedContents"]

# The table once more, written independently: whatever is routed has to be one of these.
CANONICAL = re.compile(
    r"(?:/s/[A-Za-z0-9][A-Za-z0-9._~-]*)?"
    r"(?P<path>/v1(?:beta|alpha)?/models(?:/[A-Za-z0-9][A-Za-z0-9._-]*(?::[A-Za-z]+)?)?)"
    r"(?:\?(?P<query>[^#]*))?"
)


def refused(target: str, method: str = "POST") -> ApiError:
    with pytest.raises(ApiError) as refusal:
        match(method, target)
    return refusal.value


# ---- what is served


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent"])
def test_generated_content_is_judged_in_every_version(version: str, verb: str) -> None:
    path = f"/{version}/models/gemini-2.5-flash:{verb}"
    route = match("POST", path)
    assert (route.kind, route.path, route.model, route.verb) == ("judged", path, "gemini-2.5-flash", verb)
    assert route.streamed is (verb == "streamGenerateContent")


@pytest.mark.parametrize("verb", FORWARDED)
def test_what_generates_nothing_is_forwarded(verb: str) -> None:
    assert match("POST", f"/v1/models/m:{verb}").kind == "forwarded"


@pytest.mark.parametrize("path", ["/v1beta/models", "/v1/models/gemini-2.5-pro"])
def test_models_can_be_listed_and_described(path: str) -> None:
    route = match("GET", f"{path}?pageSize=5&pageToken=a%2Fb")
    assert (route.kind, route.path, route.query) == ("forwarded", path, "pageSize=5&pageToken=a%2Fb")


def test_a_session_prefix_is_taken_off_the_path() -> None:
    route = match("POST", f"/s/team-a.42~x{CALL}?alt=json")
    assert (route.session, route.path, route.query) == ("team-a.42~x", CALL, "alt=json")


def test_a_session_prefix_works_for_every_route() -> None:
    assert match("GET", "/s/abc/v1beta/models").path == "/v1beta/models"


def test_health_is_the_gateways_own() -> None:
    assert match("GET", "/healthz").kind == "health"
    assert refused("/healthz", "POST").code == 403
    assert refused("/s/abc/healthz", "GET").code == 403


def test_another_model_keeps_version_verb_query_and_session() -> None:
    route = match("POST", "/s/abc/v1alpha/models/m:streamGenerateContent?alt=sse")
    swapped = route.for_model("other-1.5")
    assert swapped.path == "/v1alpha/models/other-1.5:streamGenerateContent"
    assert (swapped.query, swapped.session, swapped.alt) == ("alt=sse", "abc", "sse")


# ---- what is not


@pytest.mark.parametrize(
    "target",
    [
        "/v1beta/models/m%3AgenerateContent",
        "/v1beta/models%2Fm:generateContent",
        "/v1beta/models/m:generate%43ontent",
        "/%761beta/models/m:generateContent",
        "//v1beta/models/m:generateContent",
        "/s/abc//v1beta/models/m:generateContent",
        "/v1beta//models/m:generateContent",
        "/v1beta/./models/m:generateContent",
        "/x/../v1beta/models/m:generateContent",
        "/v1beta/models/../models/m:generateContent",
        "/v1beta/models/m;a=b:generateContent",
        "/v1beta/models/m:generateContent;a=b",
        "/v1beta\\models\\m:generateContent",
    ],
)
def test_paths_that_two_parsers_read_differently_are_refused_and_told_why(target: str) -> None:
    refusal = refused(target)
    assert (refusal.code, refusal.reason) == (403, "ROUTE_NOT_ALLOWED")
    assert "canonical paths only" in refusal.message


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "*",
        "/V1beta/models/m:generateContent",
        "/v1beta/Models/m:generateContent",
        "/v1beta/models/m:GenerateContent",
        "/v1beta/models/m:generateContent/",
        "/v1beta/models/m:generateContent ",
        "/v1beta/models/m:generateContent#x",
        "/v1beta/models/:generateContent",
        "/v1beta/models/.:generateContent",
        "/v1beta/models/m/n:generateContent",
        "/v1beta/models/é:generateContent",
        f"/v1beta/models/{'m' * 129}:generateContent",
        "/v1beta/models/m:generateContent:generateContent",
        "/v2/models/m:generateContent",
        "/v1beta1/models/m:generateContent",
        "http://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
        "localhost/v1beta/models/m:generateContent",
        "/v1beta/tunedModels/m:generateContent",
        "/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent",
        "/v1internal:generateContent",
        "/v1beta/interactions",
        "/v1beta/openai/chat/completions",
        "/v1beta/cachedContents",
        "/v1beta/batches",
        "/v1beta/files",
        "/upload/v1beta/files",
        "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
        "/v1beta/models",
        "/v1beta/models/m",
    ],
)
def test_other_paths_are_refused(target: str) -> None:
    refusal = refused(target)
    assert (refusal.code, refusal.reason) == (403, "ROUTE_NOT_ALLOWED")


@pytest.mark.parametrize(
    "verb",
    [
        "batchGenerateContent",
        "asyncBatchEmbedContent",
        "predict",
        "predictLongRunning",
        "bidiGenerateContent",
    ],
)
def test_other_methods_of_a_model_are_refused_by_name(verb: str) -> None:
    refusal = refused(f"/v1beta/models/m:{verb}")
    assert refusal.code == 403
    assert repr(verb) in refusal.message


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post", "CONNECT"])
def test_a_call_takes_post_alone(method: str) -> None:
    assert refused(CALL, method).code == 403
    assert refused("/v1beta/models/m:countTokens", method).code == 403


def test_the_model_listing_takes_get_alone() -> None:
    assert refused("/v1beta/models", "DELETE").code == 403


@pytest.mark.parametrize("name", ["..", ".", "-x", "a%2Fb", "a b", "", "x" * 129, "é", "a:b"])
def test_a_session_prefix_that_is_no_name_is_refused(name: str) -> None:
    assert refused(f"/s/{name}{CALL}").code == 403


def test_a_session_prefix_stands_once() -> None:
    assert refused(f"/s/a/s/b{CALL}").code == 403


# ---- queries


def test_the_query_goes_on_as_it_came() -> None:
    route = match("POST", "/v1/models/m:streamGenerateContent?key=a%2Bb+c&alt=sse")
    assert route.query == "key=a%2Bb+c&alt=sse"
    assert (route.key, route.alt) == ("a+b c", "sse")


@pytest.mark.parametrize("query", ["alt=json", "alt=", "", "key=k"])
def test_harmless_parameters_pass(query: str) -> None:
    assert match("POST", f"{CALL}?{query}").query == query


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("fields=candidates", "fields"),
        ("$alt=proto", "$alt"),
        ("%24alt=proto", "$alt"),
        ("prettyPrint=false", "prettyPrint"),
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
    assert "twice" in refusal.message


@pytest.mark.parametrize("value", ["media", "proto", "SSE", "sse;x", "sse%00"])
def test_an_unknown_alt_is_refused(value: str) -> None:
    assert refused(f"/v1/models/m:streamGenerateContent?alt={value}").code == 400


def test_server_sent_events_are_for_streams_alone() -> None:
    assert match("POST", "/v1/models/m:streamGenerateContent?alt=sse").alt == "sse"
    assert refused(f"{CALL}?alt=sse").code == 400
    assert refused("/v1/models/m:countTokens?alt=sse").code == 400


def test_a_fragment_that_would_cut_the_query_short_is_refused() -> None:
    # The upstream would never hear of alt=sse, and answer in the other framing.
    assert refused("/v1/models/m:streamGenerateContent?key=a#&alt=sse").code == 400


# ---- the law

SEPARATORS = ["/", "//", ":", "%3A", "%2F", "..", ".", ";", "\\", "?", "&", "#", " ", "\n", "\r", "é"]
WORDS = ["/s/", "s", "abc", "v1", "/v1beta", "V1", "/models", "/models/", "m", "@evil", "http://evil"]
VERBS = [":generateContent", ":streamGenerateContent", ":countTokens", ":batchGenerateContent"]
QUERIES = ["?alt=sse", "?alt=json", "?key=k", "&key=k", "key=k", "alt=sse"]
PIECES = st.sampled_from([*SEPARATORS, *WORDS, *VERBS, *QUERIES])
SERVED = f"/s/abc{CALL}?alt=json"
NEARLY_SERVED = st.builds(
    lambda at, piece, skip: SERVED[:at] + piece + SERVED[at + skip :],
    st.integers(0, len(SERVED)),
    PIECES,
    st.integers(0, 2),
)
TARGETS = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join), NEARLY_SERVED)


@given(st.sampled_from(["GET", "POST"]), TARGETS)
@example("POST", f"{CALL}\n")
@example("POST", f"/s/..{CALL}")
@example("POST", f"/s/a{CALL}?alt=json")
@example("GET", "/v1/models/m")
def test_no_target_outside_the_table_is_routed_and_none_is_changed(method: str, target: str) -> None:
    try:
        route = match(method, target)
    except ApiError:
        return
    if route == Route("health", "/healthz"):
        assert target.partition("?")[0] == "/healthz"
        return
    canonical = CANONICAL.fullmatch(target)
    assert canonical, "a target outside the table was routed"
    assert (route.path, route.query) == (canonical["path"], canonical["query"] or "")
    generates = route.path.endswith((":generateContent", ":streamGenerateContent"))
    assert (route.kind == "judged") == generates
