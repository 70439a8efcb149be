"""Code Assist's envelopes, taken off for a hook and put back around what it left.

Gemini CLI with a Google login talks to Code Assist, which wraps what the Gemini API takes and gives:

    {"model": …, "project": …, "user_prompt_id": …, "request": {"contents": …, "session_id": …}}
    {"response": {"candidates": …}, "traceId": …}

Everything but the model and the inner body is the client's or the server's own and stays as it came, in its
place. Vertex bodies are those of the Gemini API and need no wrapper.
"""

from hookgate.translator.errors import BodyError
from hookgate.translator.fields import JsonObject, read, read_object


def unwrap_request(body: JsonObject) -> tuple[str, JsonObject]:
    """The model and the very GenerateContentRequest inside; its `session_id` is a field unknown to hooks.

    Raises BodyError for a `model` that is no bare name and a `request` that is no object.
    """
    model, inner = body.get("model"), body.get("request")
    if not isinstance(model, str):
        raise BodyError("model", "a Code Assist request names its model here, as a string")
    if "/" in model or model != model.strip():  # rules for a model would not know it by this name
        raise BodyError("model", "a model is named by its bare name, such as gemini-2.5-flash")
    if not isinstance(inner, dict):
        raise BodyError(
            "request", "a Code Assist request holds its GenerateContentRequest here, as an object"
        )
    return model, inner


def rewrap_request(body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
    """The request with another model or another inner body; `body` itself when both are what they were."""
    if body["model"] == model and body["request"] is inner:
        return body
    return {**body, "model": model, "request": inner}


def session_of(body: JsonObject) -> str:
    """The client's session id of a wrapped request, or an empty string when it sent none."""
    session = read(read_object(body, "request"), "sessionId")
    return session if isinstance(session, str) else ""


def unwrap_response(body: JsonObject) -> JsonObject:
    """The very GenerateContentResponse inside; a body without one, such as an error, is its own."""
    return body["response"] if _is_wrapped(body) else body


def rewrap_response(body: JsonObject, inner: JsonObject) -> JsonObject:
    """The response or chunk with another inner body; `body` itself when that is what it was."""
    if not _is_wrapped(body):
        return inner
    return body if body["response"] is inner else {**body, "response": inner}


def wrap_response(inner: JsonObject) -> JsonObject:
    """The envelope of an answer that no model gave, and that therefore has no trace."""
    return {"response": inner}


def _is_wrapped(body: JsonObject) -> bool:
    return isinstance(body.get("response"), dict)
