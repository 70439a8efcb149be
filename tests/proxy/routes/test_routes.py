"""The route table."""

from typing import get_args

import pytest
from support.gateway.routes import CALL, PLACE, refused

from hookgate.proxy.config.models import Unhooked
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import TABLE, Route, Routes, match


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent"])
def test_generated_content_is_judged_in_every_version(version: str, verb: str) -> None:
    path = f"/{version}/models/gemini-2.5-flash:{verb}"
    route = match("POST", path)
    assert (route.kind, route.path, route.model, route.verb) == ("judged", path, "gemini-2.5-flash", verb)
    assert route.streamed is (verb == "streamGenerateContent")


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("/v1beta/tunedModels/t:generateContent", "t"),
        (f"{PLACE}/publishers/google/models/m:generateContent", "m"),
        ("/v1/publishers/google/models/m:streamGenerateContent", "m"),
        (f"{PLACE}/endpoints/17:generateContent", "17"),
        ("/v1internal:streamGenerateContent", ""),
        ("/v1/models/m:batchGenerateContent", "m"),
        ("/v1/models/m:countTokens", "m"),
        ("/v1/models/m:embedContent", "m"),
        ("/v1/tunedModels/m:batchEmbedContents", "m"),
        ("/v1/models/m:asyncBatchEmbedContent", "m"),
        (f"{PLACE}/publishers/google/models/m:computeTokens", "m"),
        (f"{PLACE}/publishers/google/models/m:batchEmbedContents", "m"),
        (f"{PLACE}/endpoints/17:countTokens", "17"),
        ("/v1internal:countTokens", ""),
        ("/v1beta/openai/chat/completions", ""),
        ("/v1beta/openai/responses", ""),
        ("/v1beta/openai/embeddings", ""),
        (f"{PLACE}/endpoints/openapi/chat/completions", ""),
        (f"{PLACE}/endpoints/openapi/responses", ""),
        (f"{PLACE}/endpoints/openapi/embeddings", ""),
    ],
)
def test_every_form_of_a_call_is_judged(target: str, model: str) -> None:
    route = match("POST", f"/s/abc{target}")
    assert (route.kind, route.path, route.model, route.session) == ("judged", target, model, "abc")


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("/v1/batches/b", "getBatch"),
        ("/v1/batches", "listBatches"),
        ("/v1beta/interactions/v1_a-b==", "getInteraction"),
        (f"{PLACE}/interactions/i", "getInteraction"),
    ],
)
def test_generated_answers_are_judged_when_they_are_fetched_later(path: str, verb: str) -> None:
    route = match("GET", path)
    assert (route.kind, route.verb, route.model) == ("judged", verb, "")


@pytest.mark.parametrize(
    ("target", "api"),
    [
        (CALL, "gemini"),
        ("/v1/files", "gemini"),
        ("/v1/publishers/google/models/m:generateContent", "vertex"),
        (f"{PLACE}/operations/o", "vertex"),
        ("/v1internal:generateContent", "code_assist"),
        ("/v1internal/operations/o", "code_assist"),
    ],
)
def test_each_path_belongs_to_one_api(target: str, api: str) -> None:
    assert match("POST" if ":" in target else "GET", target).api == api


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/files"),
        ("GET", "/v1/fileSearchStores"),
        ("GET", "/v1/files/f:download?alt=media"),
        ("DELETE", "/v1/files/f"),
        ("POST", "/v1/batches/b:cancel"),
        ("DELETE", "/v1/batches/b"),
        ("GET", "/v1/models/m/operations/o"),
        ("GET", "/v1/fileSearchStores/s/upload/operations/o"),
        ("POST", "/v1/operations/o:cancel"),
        ("DELETE", "/v1/fileSearchStores/s?force=true"),
        ("GET", "/v1/cachedContents"),
        ("POST", "/v1internal:loadCodeAssist"),
        ("GET", "/v1internal:getCodeAssistGlobalUserSetting"),
    ],
)
def test_calls_without_generated_content_are_forwarded(method: str, target: str) -> None:
    assert match(method, target).kind == "forwarded"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/upload/v1beta/files"),
        ("PUT", "/upload/v1beta/files?upload_id=x&upload_protocol=resumable"),
        ("POST", "/v1/files"),
        ("POST", "/v1/files:register"),
        ("POST", "/upload/v1/fileSearchStores/s:uploadToFileSearchStore"),
        ("POST", "/v1/fileSearchStores"),
        ("PATCH", "/v1/fileSearchStores/s?updateMask=displayName"),
        ("POST", "/v1/fileSearchStores/s:importFile"),
    ],
)
def test_what_writes_files_passes_only_when_files_are_forwarded(method: str, target: str) -> None:
    refusal = refused(target, method)
    assert (refusal.code, refusal.reason) == (403, "ROUTE_NOT_ALLOWED")
    assert 'set routes.files = "forward" in hookgate.toml to forward them' in refusal.message
    assert match(method, target, files="forward").kind == "forwarded"


@pytest.mark.parametrize(
    ("method", "target", "group"),
    [
        ("PATCH", "/v1/interactions/v1_abc=", "interactions"),
        ("GET", f"{PLACE}/interactions/v1_abc/steps", "interactions"),
        ("POST", "/v1beta/interactions/v1_abc/auth_tokens", "interactions"),
        ("DELETE", f"{PLACE}/interactions/v1_abc/auth_tokens/t", "interactions"),
        ("POST", "/v1beta/openai/responses/resp_1/cancel", "openai"),
        ("GET", "/v1beta/openai/responses/resp_1", "openai"),
        ("DELETE", f"{PLACE}/endpoints/openapi/responses/resp_1", "openai"),
        ("GET", "/v1beta/openai/chat/completions", "openai"),
        ("POST", f"{PLACE}/endpoints/openapi/completions", "openai"),
        ("GET", "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateMusic", "live"),
        ("GET", "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent", "live"),
        ("POST", "/v1/models/m:predictLongRunning", "predict"),
        ("POST", f"{PLACE}/publishers/google/models/m:fetchPredictOperation", "predict"),
        ("POST", f"{PLACE}/endpoints/17:predict", "predict"),
        ("POST", f"{PLACE}/batchPredictionJobs", "predict"),
        ("POST", "/v1/agents", "agents"),
        ("POST", "/v1/webhooks/w:ping", "agents"),
        ("POST", "/v1/auth_tokens", "agents"),
    ],
)
def test_generative_routes_without_hooks_pass_only_when_they_are_listed(
    method: str, target: str, group: str
) -> None:
    others = set(get_args(Unhooked)) - {group}
    refusal = refused(target, method, others)
    assert (refusal.code, refusal.reason) == (403, "ROUTE_NOT_ALLOWED")
    assert f'set routes.unhooked = ["{group}"] in hookgate.toml to forward it' in refusal.message
    route = match(method, target, {group})
    assert (route.kind, route.unhooked) == ("tunnel" if group == "live" else "forwarded", group)


def test_the_groups_are_those_of_the_configuration() -> None:
    assert {row.unhooked for row in TABLE if row.unhooked} == set(get_args(Unhooked))


@pytest.mark.parametrize("path", ["/v1beta/models", "/v1/models/gemini-2.5-pro"])
def test_models_can_be_listed_and_described(path: str) -> None:
    route = match("GET", f"{path}?pageSize=5&pageToken=a%2Fb")
    assert (route.kind, route.path, route.query) == ("forwarded", path, "pageSize=5&pageToken=a%2Fb")


def test_a_session_prefix_is_taken_off_the_path() -> None:
    route = match("POST", f"/s/team-a.42~x{CALL}?alt=json")
    assert (route.session, route.path, route.query) == ("team-a.42~x", CALL, "alt=json")


def test_a_session_prefix_works_for_every_route() -> None:
    assert match("GET", "/s/abc/v1beta/models").path == "/v1beta/models"


def test_routes_for_operators_have_their_own_listener() -> None:
    assert refused("/healthz", "GET").code == 403


def test_another_model_keeps_version_verb_query_and_session() -> None:
    route = match("POST", "/s/abc/v1alpha/models/m:streamGenerateContent?alt=sse")
    swapped = route.for_model("other-1.5")
    assert swapped.path == "/v1alpha/models/other-1.5:streamGenerateContent"
    assert (swapped.query, swapped.session, swapped.alt) == ("alt=sse", "abc", "sse")


@pytest.mark.parametrize(
    ("path", "swapped"),
    [
        ("/v1/models/m:batchGenerateContent", "/v1/models/new:batchGenerateContent"),
        ("/v1/tunedModels/t:generateContent", "/v1/models/new:generateContent"),
        (
            "/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent",
            "/v1beta1/projects/p/locations/l/publishers/google/models/new:generateContent",
        ),
        (
            "/v1/projects/p/locations/l/endpoints/17:generateContent",
            "/v1/projects/p/locations/l/publishers/google/models/new:generateContent",
        ),
        (
            "/v1/publishers/google/models/m:generateContent",
            "/v1/publishers/google/models/new:generateContent",
        ),
        ("/v1internal:generateContent", "/v1internal:generateContent"),
    ],
)
def test_every_form_of_a_call_can_go_to_another_model(path: str, swapped: str) -> None:
    route = match("POST", path)
    assert route.for_model(route.model) == route
    other = route.for_model("new")
    assert other.path == swapped
    assert match("POST", other.path) == other


@pytest.mark.parametrize("prefix", ["", "/s/abc"])
def test_the_doubled_slash_of_the_javascript_sdk_before_a_websocket_is_removed(prefix: str) -> None:
    path = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
    route = match("GET", f"{prefix}/{path}?key=k", live="judge")
    assert (route.kind, route.path) == ("live", path)
    for other in (f"//{path}", f"/.{path}", "//v1beta/models"):
        assert refused(f"{prefix}{other}", "GET").code == 403


@pytest.mark.parametrize(
    "target",
    [
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        "/sessions/s/v1beta/models/m:generateContent",
        "/v1beta/models/m:generateContent?key=secret",
        "/v1beta/models/m:unknown",
    ],
)
def test_a_remembered_route_is_the_route(target: str) -> None:
    routes = Routes()

    def found(method: str) -> Route | str:
        try:
            return routes.match(method, target)
        except ApiError as error:
            return error.message

    def expected(method: str) -> Route | str:
        try:
            return match(method, target)
        except ApiError as error:
            return error.message

    for method in ("POST", "GET", "POST", "GET"):
        assert found(method) == expected(method)


def test_remembered_routes_contain_no_credential_and_are_bounded() -> None:
    routes = Routes()
    call = "/v1beta/models/m:generateContent?key=secret-{}"
    assert routes.match("POST", call.format(1)) is not routes.match("POST", call.format(1))
    plain = "/v1beta/models/m-{}:generateContent"
    first = routes.match("POST", plain.format(0))
    assert routes.match("POST", plain.format(0)) is first
    for number in range(1000):
        routes.match("POST", plain.format(number))
    assert routes.match("POST", plain.format(0)) is not first
