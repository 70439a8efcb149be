"""Bodies that google-genai makes, with a text in one field of its own types."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
from google import genai
from google.auth.credentials import Credentials
from google.genai import types
from support.bodies.planting import SECRET, leaves

from hookgate.translator.fields import camel

Json = dict[str, Any]
Leaf = tuple[str, Any]
"""The path of a text field, and a value of the type with a text in this field alone."""

NOT_SENT = ("http_options", "sdk_http_response", "should_return_http_response")
"""Fields for the SDK itself."""


class _Login(Credentials):  # type: ignore[no-untyped-call,misc]  # the library has no types
    def __init__(self) -> None:
        super().__init__()
        self.token = "any"  # noqa: S105  # no secret

    def refresh(self, request: Any) -> None:
        pass


class Sdk:
    """A client of one API, which notes requests in place of sending them."""

    def __init__(self, *, vertex: bool) -> None:
        self.requests: list[httpx2.Request] = []
        transport = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        options = types.HttpOptions(base_url="http://gate", httpx_client=transport)
        place = {"vertexai": True, "project": "p", "location": "l", "credentials": _Login()}
        login: Any = place if vertex else {"api_key": "k"}
        self.client = genai.Client(**login, http_options=options)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, json={})

    def request(self, call: Callable[[genai.Client], Any]) -> tuple[str, Json]:
        """The path and the body of a call. Raises what the SDK raises if it sends nothing."""
        self.requests.clear()
        try:
            call(self.client)
        except Exception:
            if not self.requests:
                raise
        return self.requests[0].url.raw_path.decode(), json.loads(self.requests[0].content)


def leaves_of(kind: Any) -> list[Leaf]:
    return [
        (path, _named(value))
        for path, value in leaves(kind)
        if not any(f".{name}" in path for name in NOT_SENT)
    ]


def _named(value: Any) -> Any:
    """A value whose declarations of functions have names, without which they are refused."""
    if isinstance(value, list):
        return [_named(item) for item in value]
    if not isinstance(value, dict):
        return value
    new = {key: _named(item) for key, item in value.items()}
    if isinstance(declared := new.get("function_declarations"), list):
        new["function_declarations"] = [{"name": "f", **each} for each in declared]
    return new


def camel_case(value: Any) -> Any:
    """A value in REST's spelling."""
    if isinstance(value, dict):
        return {key if key == SECRET else camel(key): camel_case(item) for key, item in value.items()}
    return [camel_case(item) for item in value] if isinstance(value, list) else value
