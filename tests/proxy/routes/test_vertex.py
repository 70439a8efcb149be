"""Routes of Vertex AI for calls with one of the gateway's own credentials."""

import pytest

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import Route, match
from hookgate.proxy.routes.vertex import (
    is_stateless,
    on_vertex,
    openai_body_on_vertex,
    vertex_origin,
)
from hookgate.translator.strictjson import dumps, loads

P = "/v1/projects/mine/locations/europe-west4"
OPENED = ("openai", "predict", "live", "interactions")


def matched(method_and_target: str) -> Route:
    method, target = method_and_target.split(" ")
    return match(method, target, OPENED, "forward")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (
            "POST /v1beta/models/gemini-3:generateContent",
            f"{P}/publishers/google/models/gemini-3:generateContent",
        ),
        (
            "POST /v1/models/gemini-3:streamGenerateContent?alt=sse",
            f"{P}/publishers/google/models/gemini-3:streamGenerateContent",
        ),
        ("POST /v1alpha/models/gemini-3:countTokens", f"{P}/publishers/google/models/gemini-3:countTokens"),
        (
            "POST /v1beta/models/gemini-embedding-2:embedContent",
            f"{P}/publishers/google/models/gemini-embedding-2:embedContent",
        ),
        (
            "POST /v1beta1/projects/theirs/locations/us/publishers/google/models/gemini-3:generateContent",
            "/v1beta1/projects/mine/locations/europe-west4/publishers/google/models/gemini-3:generateContent",
        ),
        (
            "POST /v1/publishers/google/models/gemini-3:computeTokens",
            f"{P}/publishers/google/models/gemini-3:computeTokens",
        ),
        ("POST /v1/publishers/google/models/imagen:predict", f"{P}/publishers/google/models/imagen:predict"),
        (f"GET {P}/cachedContents/1", f"{P}/cachedContents/1"),
        (f"POST {P}/endpoints/7:generateContent", f"{P}/endpoints/7:generateContent"),
        ("GET /v1/publishers/google/models", "/v1/publishers/google/models"),
        ("POST /v1beta/openai/chat/completions", f"{P}/endpoints/openapi/chat/completions"),
        ("POST /v1/openai/embeddings", f"{P}/endpoints/openapi/embeddings"),
        *(
            (f"POST /v1/projects/theirs/locations/us/endpoints/openapi/{end}", f"{P}/endpoints/openapi/{end}")
            for end in ("chat/completions", "embeddings", "responses")
        ),
    ],
)
def test_calls_name_the_project_and_the_location_of_the_credential(target: str, path: str) -> None:
    route = on_vertex(matched(target), "mine", "europe-west4")
    assert (route.api, route.path) == ("vertex", path)
    assert route.query == matched(target).query


def test_a_model_that_a_hook_has_chosen_is_called() -> None:
    route = matched("POST /v1beta/models/gemini-3:generateContent").for_model("gemma-4")
    assert on_vertex(route, "mine", "global").path.endswith(
        "/locations/global/publishers/google/models/gemma-4:generateContent"
    )


def test_an_api_key_without_a_project_has_the_paths_without_one() -> None:
    route = on_vertex(matched("POST /v1beta/models/gemini-3:generateContent"), "", "")
    assert route.path == "/v1/publishers/google/models/gemini-3:generateContent"
    named = matched("POST /v1/projects/a/locations/b/publishers/google/models/m:generateContent")
    assert on_vertex(named, "", "") is named


def test_an_api_key_without_a_project_has_no_openai_compatible_path() -> None:
    with pytest.raises(ApiError, match="names a project; the operator can set project for the credential"):
        on_vertex(matched("POST /v1beta/openai/chat/completions"), "", "")


@pytest.mark.parametrize("named", ["gemini-3", "models/gemini-3", "google/gemini-3"])
def test_a_model_has_the_name_that_vertex_ai_gives_it(named: str) -> None:
    body = openai_body_on_vertex(dumps({"model": named, "input": "hi"}))
    assert loads(body) == {"model": "google/gemini-3", "input": "hi"}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("GET /v1beta/models", "of the paths of the Gemini API it has generateContent"),
        ("GET /v1beta/models/gemini-3", "of the paths of the Gemini API it has generateContent"),
        ("GET /v1beta/files", "of the paths of the Gemini API it has generateContent"),
        ("POST /upload/v1beta/files", "of the paths of the Gemini API it has generateContent"),
        ("POST /v1beta/cachedContents", "of the paths of the Gemini API it has generateContent"),
        ("POST /v1beta/models/gemini-3:batchGenerateContent", "of the paths of the Gemini API it has"),
        ("GET /v1beta/batches/1", "of the paths of the Gemini API it has generateContent"),
        ("POST /v1beta/openai/responses", "OpenAI-compatible path has chat completions and embeddings only"),
        ("GET /v1beta/openai/models", "of the paths of the Gemini API it has generateContent"),
        ("POST /v1beta/openai/images/generations", "of the paths of the Gemini API it has generateContent"),
        ("POST /v1beta/models/veo:predict", "of the paths of the Gemini API it has generateContent"),
        ("POST /v1beta/interactions", "of the paths of the Gemini API it has generateContent"),
        (
            "POST /v1beta/models/m:batchEmbedContents",
            "no batchEmbedContents; send each text with embedContent",
        ),
        (
            "POST /v1beta/models/text-embedding-005:embedContent",
            "text-embedding-005 has no embedContent, only",
        ),
        ("POST /v1beta/tunedModels/mine:generateContent", "tuned models of the Gemini API do not exist"),
        (
            "GET /ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent",
            "of the paths of the Gemini API it has generateContent",
        ),
        (
            "GET /ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent",
            "WebSockets at Vertex AI name a project in their messages",
        ),
    ],
)
def test_what_vertex_ai_does_not_have_is_refused_with_the_reason(target: str, reason: str) -> None:
    with pytest.raises(ApiError) as error:
        on_vertex(matched(target), "mine", "global")
    assert (error.value.code, error.value.reason) == (404, "NOT_ON_VERTEX")
    assert reason in error.value.message


@pytest.mark.parametrize(
    "place",
    [
        "projects/theirs/locations/europe-west4",
        "projects/mine/locations/us-east1",
        "projects/min/locations/e",
    ],
)
@pytest.mark.parametrize(
    "target",
    [
        "GET /v1/{}/cachedContents",
        "POST /v1/{}/endpoints/7:generateContent",
        "GET /v1/{}/models/m",
        "POST /v1/{}/endpoints/openapi/images/generations",
        "POST /v1/{}/batchPredictionJobs",
    ],
)
def test_no_caller_chooses_another_project_or_location(target: str, place: str) -> None:
    with pytest.raises(ApiError) as error:
        on_vertex(matched(target.format(place)), "mine", "europe-west4")
    assert (error.value.code, error.value.reason) == (403, "PROJECT_NOT_ALLOWED")


def test_only_calls_that_use_nothing_stored_work_in_any_project() -> None:
    stateless = [
        "POST /v1beta/models/gemini-3:generateContent",
        "POST /v1/projects/a/locations/b/publishers/google/models/m:countTokens",
        "POST /v1beta/models/m:batchEmbedContents",
        "GET /v1beta/models",
        "GET /v1/publishers/google/models/m",
        "POST /v1beta/openai/chat/completions",
        "POST /v1beta/openai/responses",
        "POST /v1/projects/a/locations/b/endpoints/openapi/embeddings",
    ]
    stateful = [
        "POST /v1beta/tunedModels/mine:generateContent",
        "POST /v1beta/models/m:batchGenerateContent",
        "POST /v1beta/models/m:asyncBatchEmbedContent",
        "POST /v1beta/models/veo:predictLongRunning",
        "GET /v1beta/models/m/operations",
        "GET /v1beta/batches",
        "GET /v1beta/files",
        "GET /v1/projects/a/locations/b/models",
        "POST /v1/projects/a/locations/b/endpoints/7:generateContent",
        "POST /v1beta/openai/images/generations",
        "GET /v1beta/openai/models",
        "GET /v1beta/openai/responses/resp_1",
    ]
    assert [target for target in stateless if not is_stateless(matched(target))] == []
    assert [target for target in stateful if is_stateless(matched(target))] == []


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("", "aiplatform.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_each_location_has_its_host(location: str, host: str) -> None:
    default = "https://aiplatform.googleapis.com"
    assert vertex_origin(default, default, location) == f"https://{host}"
    assert vertex_origin("http://127.0.0.1:1", default, location) == "http://127.0.0.1:1"


def test_a_live_session_that_is_judged_may_not_name_a_project_either() -> None:
    target = "/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent"
    with pytest.raises(ApiError, match="name a project in their messages"):
        on_vertex(match("GET", target, live="judge"), "mine", "global")
