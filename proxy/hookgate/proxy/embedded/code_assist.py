"""Code Assist beside the Gemini API: its envelopes, and fixed answers to what Gemini CLI asks of it. Pure."""

from typing import Any

from hookgate.proxy.embedded.requests import ApiError, Json

_PROJECT = "embedded"
_ONBOARDED: Json = {
    "name": "operations/embedded",
    "done": True,
    "response": {"cloudaicompanionProject": {"id": _PROJECT, "name": _PROJECT}},
}
_USER_SETTING: Json = {"cloudaicompanionProject": _PROJECT, "freeTierDataCollectionOptin": False}

POSTS: dict[str, Json] = {
    "loadCodeAssist": {
        "currentTier": {"id": "standard-tier", "name": _PROJECT},
        "cloudaicompanionProject": _PROJECT,
    },
    "onboardUser": _ONBOARDED,
    "setCodeAssistGlobalUserSetting": _USER_SETTING,
    "recordCodeAssistMetrics": {},
    "fetchAdminControls": {},
    "listExperiments": {"flags": [], "experimentIds": []},
    "retrieveUserQuota": {"buckets": []},
}
"""The answers to POST, by method."""

GETS: dict[str, Json] = {
    ":getCodeAssistGlobalUserSetting": _USER_SETTING,
    "/operations/embedded": _ONBOARDED,
}
"""The answers to GET, by what follows the version."""


def opened(body: Any) -> tuple[str, Json]:
    """The model and the request in an envelope; where countTokens has it, the model is in the request.

    ApiError 400 for a body without them.
    """
    request = body.get("request") if isinstance(body, dict) else None
    if not isinstance(request, dict):
        raise ApiError(400, "Invalid value at 'request': an object is expected.")
    model = body.get("model") or request.get("model")
    if not isinstance(model, str) or not model:
        raise ApiError(400, "Invalid value at 'model': a model's name is expected.")
    return model.removeprefix("models/"), {name: item for name, item in request.items() if name != "model"}


def wrapped(response: Json) -> Json:
    """An answer, or an event of one, in its envelope."""
    return {"response": response, "traceId": response.get("responseId", _PROJECT)}
