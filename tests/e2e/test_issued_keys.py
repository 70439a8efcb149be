"""Real clients with keys that the gateway has issued: they work, and show a denial after one request."""

from pathlib import Path

import pytest
from google import genai
from google.genai import errors, types
from support.audits import reading
from support.keys import UPSTREAM_KEY, issue, issuing_gateway
from support.node import GeminiCli
from support.python_sdk import MODEL, sdk_warnings

from hookgate.proxy.audit.reading import RecordFilter

pytestmark = sdk_warnings


def calls_in(state: Path) -> list[str]:
    """The outcomes of all recorded calls, except of listings and the like."""
    with reading(state) as audit:
        return [call.outcome for call in audit.calls(RecordFilter(), 100)]


@pytest.mark.parametrize("vertex", [False, True], ids=["gemini", "vertex"])
async def test_the_python_sdk(vertex: bool, tmp_path: Path) -> None:
    async with issuing_gateway(tmp_path) as gateway:
        for revoked in (None, 1):
            key = issue(tmp_path, revoked=revoked)
            options = types.HttpOptions(base_url=gateway.url)
            client = genai.Client(vertexai=vertex, api_key=key, http_options=options)
            try:
                if revoked is None:
                    answer = await client.aio.models.generate_content(model=MODEL, contents="hi")
                    assert answer.text
                else:
                    with pytest.raises(errors.ClientError, match=r"403 .*The key \w+ of alice was revoked\."):
                        await client.aio.models.generate_content(model=MODEL, contents="hi")
            finally:
                await client.aio.aclose()
                client.close()
        assert [request.headers["x-goog-api-key"] for request in gateway.recorded] == [UPSTREAM_KEY]
    assert calls_in(tmp_path) == ["refused", "answered"]


@pytest.mark.parametrize("login", ["api key", "vertex"])
async def test_gemini_cli(login: str, tmp_path: Path) -> None:
    variable = "GEMINI_API_KEY" if login == "api key" else "GOOGLE_API_KEY"
    state = tmp_path / "state"
    async with issuing_gateway(state) as gateway:
        cli = GeminiCli(tmp_path, login)  # type: ignore[arg-type]  # a literal of the parameters
        limits = {"limits": [{"per": "key", "window": "month", "requests": 1}]}
        limited = issue(state, scope=limits)
        works = await cli.ask(gateway.url, "hi", **{variable: limited})
        assert works.exit_code == 0, works.stderr
        denied = await cli.ask(gateway.url, "hi", **{variable: limited})
        assert denied.exit_code == 1
        assert "of alice has used 1 of 1 requests in this month; it resets at" in denied.stderr
        assert len(gateway.recorded) == 1
    assert calls_in(state) == ["refused", "answered"]
