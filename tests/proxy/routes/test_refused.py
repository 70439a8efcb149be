"""Only the routes in the table are served."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.gateway.routes import CALL, refused

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import match


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
def test_paths_that_two_parsers_read_differently_are_refused_with_a_reason(target: str) -> None:
    refusal = refused(target)
    assert (refusal.code, refusal.reason) == (403, "ROUTE_NOT_ALLOWED")
    assert "canonical paths only" in refusal.message


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "/v1beta/v1beta/models/m:generateContent",
            "The base URL must not end with /v1beta; remove it there.",
        ),
        ("/s/abc/v1/v1beta/models/m:generateContent", "The base URL must not end with /v1; remove it there."),
        ("/v1internal/v1internal:countTokens", "The base URL must not end with /v1internal; "),
        ("/v1beta/models/m:generateContnt", "'generateContnt' here; did you mean generateContent?"),
        ("/v1beta/models/m:GenerateContent", "did you mean generateContent?"),
        ("/v1internal:countToken", "did you mean countTokens?"),
        ("/v1beta/models/m:generateCode", "hooks could not judge its answers"),
        ("/v1/completions", "must end with /v1beta/openai/"),
        ("/openai/responses", "must end with /v1beta/openai/"),
        ("/v1beta/embeddings", "must end with /v1beta/openai/"),
        ("/v1beta/openai/v1/chat/completions", "must end with /v1beta/openai/"),
        ("/v2/models/m:generateContnt", "hooks could not judge its answers"),
        ("/models", "must begin with an API version, such as /v1beta/models/…"),
        ("/models/m:generateContnt", "did you mean generateContent?"),
        ("/s/abc/models/m", "must begin with an API version"),
        ("/openai/v1/models/m:generateContent", "remove it from the end of the client's base URL"),
        ("/gemini/v1beta/models/m:generateContent", "set listen.url in hookgate.toml"),
        ("/team/a/s/abc/v1beta/models", "set listen.url in hookgate.toml"),
        ("/gemini/upload/v1beta/files", "set listen.url in hookgate.toml"),
        ("/gemini/v1internal:countTokens", "set listen.url in hookgate.toml"),
        ("/projects/p/locations/l/publishers/google/models/m:countTokens", "must begin with an API version"),
        ("/healthz", "This is the listener for agents; /healthz is on the admin listener (admin.address)."),
        ("/readyz", "on the admin listener"),
        ("/metrics", "on the admin listener"),
        ("/v1beta/models/m/n:generateContent", "hooks could not judge its answers"),
    ],
)
def test_a_refusal_suggests_what_was_probably_meant(target: str, expected: str) -> None:
    assert expected in refused(target).message


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
        "/v1beta/publishers/google/models/m:generateContent",
        "/v1beta1/projects/p/publishers/google/models/m:generateContent",
        "/v1beta1/projects/p/locations/l/publishers/anthropic/models/m:generateContent",
        "/v1beta1/projects/p/locations/l/publishers/google/models/m:batchGenerateContent",
        "/v1internal:generateCode",
        "/v1internal/models/m:generateContent",
        "/v1beta/dynamic/m:generateContent",
        "/v1beta/interactions/v1_1",
        "/v1beta/interactions/v1_1/cancel/x",
        "/v1beta/openai/chat/completions/c",
        "/v1beta/openai/responses/resp_1",
        "/v1beta/batches",
        "/upload/v1beta/models/m:generateContent",
        "/v1beta/openai/../models",
        "/v1beta/interactions/.",
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
    ["generateAnswer", "generateText", "generateMessage", "bidiGenerateContent", "x"],
)
def test_other_methods_of_a_model_are_refused_by_name(verb: str) -> None:
    refusal = refused(f"/v1beta/models/m:{verb}")
    assert refusal.code == 403
    assert repr(verb) in refusal.message


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post", "CONNECT"])
def test_a_call_accepts_post_only(method: str) -> None:
    assert refused(CALL, method).code == 403
    assert refused("/v1beta/models/m:countTokens", method).code == 403


def test_the_model_listing_accepts_get_only() -> None:
    assert refused("/v1beta/models", "DELETE").code == 403


@pytest.mark.parametrize("name", ["..", ".", "-x", "a%2Fb", "a b", "", "x" * 129, "é", "a:b"])
def test_a_session_prefix_that_is_not_a_name_is_refused(name: str) -> None:
    assert refused(f"/s/{name}{CALL}").code == 403


def test_a_session_prefix_occurs_once() -> None:
    assert refused(f"/s/a/s/b{CALL}").code == 403


# ---- the law

# What generates, once more and written independently: whatever asks for it must be judged, or unhooked.
SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._~-]*"
GENERATES = re.compile(
    rf"/v1(?:beta|alpha)?/(?:models|tunedModels)/{SEGMENT}:(?:stream|batch)?[gG]enerateContent"
    rf"|/v1(?:beta1)?(?:/projects/{SEGMENT}/locations/{SEGMENT})?/publishers/google/models/{SEGMENT}"
    r":(?:g|streamG)enerateContent"
    rf"|/v1(?:beta1)?/projects/{SEGMENT}/locations/{SEGMENT}/endpoints/{SEGMENT}:(?:g|streamG)enerateContent"
    r"|/v1internal:(?:g|streamG)enerateContent"
)
CANONICAL = re.compile(
    r"(?:/s/[A-Za-z0-9][A-Za-z0-9._~-]*)?(?P<path>(?:/[A-Za-z0-9_~-][A-Za-z0-9._~:=@+-]*)+)"
    r"(?:\?(?P<query>[!\"$-~]*))?"
)

SEPARATORS = ["/", "//", ":", "%3A", "%2F", "..", ".", ";", "\\", "?", "&", "#", " ", "\n", "\r", "é"]
WORDS = [
    "/s/",
    "/tunedModels",
    "/v1internal",
    "/files",
    "/batches",
    "/publishers/google",
    "/endpoints",
    "/openai",
    "s",
    "abc",
    "v1",
    "/v1beta",
    "V1",
    "/models",
    "/models/",
    "m",
    "@evil",
    "http://evil",
]
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
@example("POST", "/models/m:generateContent")
def test_no_target_outside_the_table_is_routed_and_none_is_changed(method: str, target: str) -> None:
    try:
        route = match(method, target)
    except ApiError:
        return
    canonical = CANONICAL.fullmatch(target)
    assert canonical, "a target outside the table was routed"
    assert route.path in (canonical["path"], f"/v1beta{canonical['path']}")
    assert all(piece in (canonical["query"] or "") for piece in route.query.split("&"))
    generates = bool(GENERATES.fullmatch(route.path)) or bool(
        re.fullmatch(r"/v1\w*/batches(/.*)?", route.path)
    )
    assert (route.kind == "judged") == generates


@pytest.mark.parametrize("place", ["/v1beta", "/v1beta1/projects/p/locations/l"])
def test_a_live_session_of_interactions_is_refused_as_such(place: str) -> None:
    """Its path is that of an interaction with the ID `live`."""
    for opened in ((), ("interactions", "live")):
        for method in ("GET", "DELETE"):
            refusal = refused(f"{place}/interactions/live", method, opened)
            assert "cannot judge Live sessions of interactions" in refusal.message


@pytest.mark.parametrize("path", ["auth_tokens", "auth_tokens/t"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "GET"])
def test_tokens_for_interactions_are_refused_and_no_issued_key_may_create_them(
    path: str, method: str
) -> None:
    target = f"/v1beta/interactions/v1_abc/{path}"
    assert "ephemeral tokens" in refused(target, method).message
    assert match(method, target, {"interactions"}).group is None
