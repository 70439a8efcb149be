"""Unwraps and rewraps the envelopes of Code Assist.

Gemini CLI with a Google login uses Code Assist, which wraps the requests and responses of the Gemini API:

    {"model": …, "project": …, "user_prompt_id": …, "request": {"contents": …, "session_id": …}}
    {"response": {"candidates": …}, "traceId": …}

The other fields of an envelope are preserved unchanged. The bodies of Vertex AI are those of the Gemini API
and have no envelope.
"""

from hookgate.translator.fields import BodyError, JsonObject, read, read_object


def unwrap_request(body: JsonObject) -> tuple[str, JsonObject]:
    """Return the model and the GenerateContentRequest of an envelope, the same object.

    Raises BodyError if `model` is not a bare name or `request` is not an object.
    """
    model, inner = body.get("model"), body.get("request")
    if not isinstance(model, str):
        raise BodyError("model", "a Code Assist request names its model here, as a string")
    if "/" in model or model != model.strip():  # policies would not recognize the model by this name
        raise BodyError("model", "the model must be a bare name, such as gemini-3.8-flash")
    if not isinstance(inner, dict):
        raise BodyError("request", "a Code Assist request has its GenerateContentRequest here, as an object")
    return model, inner


def rewrap_request(body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
    """Return the envelope with this model and inner request, or `body` itself if both are unchanged."""
    if body["model"] == model and body["request"] is inner:
        return body
    return {**body, "model": model, "request": inner}


def enveloped_session(body: JsonObject) -> str:
    """Return the client's session ID in a wrapped request, or "" if there is none."""
    session = read(read_object(body, "request"), "sessionId")
    return session if isinstance(session, str) else ""


def unwrap_response(body: JsonObject) -> JsonObject:
    """Return the GenerateContentResponse of an envelope, or the body itself if it has none, as in errors.

    Raises BodyError if a response is not where clients look for it, or if there is another one, or an error,
    beside it, which hooks would not see.
    """
    if _is_wrapped(body):
        if not body.keys().isdisjoint(_NOT_BESIDE):
            raise BodyError("response", "it stands beside fields of another response, or an error")
        response: JsonObject = body["response"]
        return response
    if not body.keys().isdisjoint(_OF_RESPONSE):
        raise BodyError("response", "the answer of Code Assist has its response here, as an object")
    return body


def rewrap_response(body: JsonObject, inner: JsonObject) -> JsonObject:
    """Return the envelope with this inner response, or `body` itself if it is unchanged."""
    if not _is_wrapped(body):
        return inner
    return body if body["response"] is inner else {**body, "response": inner}


def wrap_response(inner: JsonObject) -> JsonObject:
    """Return an envelope for a synthetic answer, which has no trace ID."""
    return {"response": inner}


_OF_RESPONSE = frozenset({"candidates", "promptFeedback", "prompt_feedback"})
"""The fields of a response, in which clients of Code Assist do not look outside of the envelope."""

_NOT_BESIDE = _OF_RESPONSE | {"error"}
"""The fields that an envelope with a response must not have."""


def _is_wrapped(body: JsonObject) -> bool:
    return isinstance(body.get("response"), dict)
