"""The option model_armor of the policy models: Vertex AI judges calls with the operator's templates."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.gateway.keys import issue, issuing_gateway, key_header
from support.gateway.loopback import running_gateway
from support.upstream.google_cloud import google_cloud, vertex
from support.wire import HI, KEY, UNARY, post

PLACE = "/v1/projects/p/locations/l/publishers/google/models/gemini-3.8-flash"
PROMPTS = "projects/p/locations/l/templates/prompts"
ANSWERS = "projects/p/locations/l/templates/answers"
WANTED = {"promptTemplateName": PROMPTS, "responseTemplateName": ANSWERS}
OTHER = {**WANTED, "promptTemplateName": "projects/evil/locations/l/templates/lax"}
SAFETY = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]


def models(**armor: Any) -> Any:
    options = {"model_armor": {"prompts": PROMPTS, "answers": ANSWERS, **armor}}
    return {"BeforeModel": [{"type": "builtin", "builtin": "models", "options": options}]}


async def upstream_body(target: str, body: Any, hooks: Any) -> Any:
    """What reaches the upstream; the status if nothing does."""
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, target, body, KEY)
        return gateway.recorded[0].body if gateway.recorded else answer


@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent?alt=sse"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"modelArmorConfig": OTHER},
        {"model_armor_config": OTHER},
        {"modelArmorConfig": None},
        {"modelArmorConfig": WANTED, "safetySettings": SAFETY},
        {"safety_settings": SAFETY},
    ],
)
async def test_every_call_to_vertex_ai_gets_the_templates(verb: str, given: Any) -> None:
    body = await upstream_body(f"{PLACE}:{verb}", {**HI, **given}, models())
    named = [value for name, value in body.items() if name in ("modelArmorConfig", "model_armor_config")]
    assert named == [WANTED]
    assert not body.keys() & {"safetySettings", "safety_settings"}


async def test_two_spellings_of_the_templates_do_not_pass() -> None:
    both = {**HI, "modelArmorConfig": WANTED, "model_armor_config": OTHER}
    for action in ("set", "require"):
        refused = await upstream_body(f"{PLACE}:generateContent", both, models(action=action))
        assert refused.status in (400, 403)


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({"modelArmorConfig": WANTED}, True),
        ({"model_armor_config": {"prompt_template_name": PROMPTS, "response_template_name": ANSWERS}}, True),
        ({"modelArmorConfig": OTHER}, False),
        ({"modelArmorConfig": {"promptTemplateName": PROMPTS}}, False),
        ({"modelArmorConfig": [WANTED]}, False),
        ({}, False),
    ],
)
async def test_a_call_that_must_name_the_templates_is_denied_without_them(given: Any, passes: bool) -> None:
    result = await upstream_body(f"{PLACE}:generateContent", {**HI, **given}, models(action="require"))
    if passes:
        assert result["contents"] == HI["contents"]
    else:
        assert result.status == 403
        assert "must name the templates of Model Armor" in result.error["message"]


async def test_methods_without_the_templates_are_denied_at_vertex_ai_if_they_generate() -> None:
    chat = "/v1/projects/p/locations/l/endpoints/openapi/chat/completions"
    messages = {"model": "google/gemini-3.8-flash", "messages": [{"role": "user", "content": "hi"}]}
    denied = await upstream_body(chat, messages, models())
    assert denied.status == 403
    assert "only to generateContent" in denied.body.decode()
    counted = await upstream_body(f"{PLACE}:countTokens", HI, models())
    assert "modelArmorConfig" not in counted


async def test_calls_to_the_gemini_api_stay_as_they_are() -> None:
    for action in ("set", "require"):
        assert await upstream_body(UNARY, HI, models(action=action)) == HI


async def test_a_call_to_the_gemini_api_that_the_gateway_sends_to_vertex_ai_gets_the_templates(
    tmp_path: Path,
) -> None:
    async with google_cloud() as cloud:
        credentials = {"cloud": vertex(cloud, tmp_path, locations=["europe-west4"])}
        async with issuing_gateway(
            tmp_path, models(), upstream_url=cloud.url, upstream={}, credentials=credentials
        ) as gateway:
            answer = await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))
        assert answer.status == 200
        [call] = cloud.calls
        assert json.loads(call.body)["modelArmorConfig"] == WANTED
