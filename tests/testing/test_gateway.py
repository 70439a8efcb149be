"""hookgate.testing: a gateway for tests of a user's own hooks, of all kinds."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from hookgate.testing import GatewayUnderTest, run_gateway


class _Service(BaseHTTPRequestHandler):
    """An http hook that denies what mentions a service."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        denied = b"service" in body
        answer = b'{"decision": "deny", "reason": "no services"}' if denied else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook"
        finally:
            server.shutdown()
            thread.join()


SCRIPT = {
    "rules": [
        {"when": {"text": "a tool"}, "answer": {"parts": [{"functionCall": {"name": "rm", "args": {}}}]}},
        {"when": {"text": "joke"}, "answer": {"error": {"status": 503, "message": "overloaded"}}},
    ]
}


@pytest.fixture(scope="module")
def gateway(service: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    folder = tmp_path_factory.mktemp("hooks")
    (folder / "guard.py").write_text(
        "def judge(call):\n"
        "    text = call['llm_request']['messages'][-1]['content']\n"
        "    if 'function' in text:\n"
        "        return {'decision': 'deny', 'reason': 'no functions'}\n"
    )
    (folder / "guard.sh").write_text(
        "#!/bin/sh\nif grep -q command; then echo 'no commands' >&2; exit 2; fi\n"
    )
    hooks = [
        {"name": "of-command", "type": "command", "command": "sh ./guard.sh"},
        {"name": "of-runtime", "type": "runtime", "action": "./guard.py:judge"},
        {"name": "of-http", "type": "http", "url": service},
        {"name": "of-builtin", "type": "builtin", "builtin": "models", "options": {"deny": ["*-pro"]}},
    ]
    tools = {"name": "no-rm", "type": "builtin", "builtin": "tools", "options": {"deny": [{"tool": "rm"}]}}
    settings = {"hooks": {"BeforeModel": [{"hooks": hooks}], "BeforeTool": [{"hooks": [tools]}]}}
    with run_gateway(settings, script=SCRIPT, folder=folder) as gateway:
        yield gateway


@pytest.mark.parametrize("kind", ["command", "runtime", "http", "builtin"])
def test_a_hook_of_each_kind_denies(gateway: GatewayUnderTest, kind: str) -> None:
    words = {"http": "service", "runtime": "function"}.get(kind, kind)
    model = "gemini-2.5-pro" if kind == "builtin" else "gemini-2.5-flash"
    before = len(gateway.upstream_requests)
    answer = gateway.ask(f"a {words} for {kind}, please", model=model)
    gateway.assert_denied(answer, hook=f"of-{kind}")
    assert len(gateway.upstream_requests) == before
    if kind != "builtin":
        gateway.assert_denied(answer, reason=f"no {words}s")
        assert f"no {words}s" in answer.text
        gateway.assert_not_sent(f"{words} for")


def test_an_answer_is_asserted_by_what_happened_to_its_call(gateway: GatewayUnderTest) -> None:
    answer = gateway.ask("hi", stream=True)
    gateway.assert_answered(answer)
    gateway.assert_hook(answer, "of-command", decision="allow")
    assert (answer.status, answer.text) == (200, "You said: hi")
    with pytest.raises(
        AssertionError, match=r"answered, not denied\n(.*\n)*.*BeforeModel of-http .enforce.: allow 1"
    ):
        gateway.assert_denied(answer)
    with pytest.raises(AssertionError, match="'of-http' did not decide 'deny'"):
        gateway.assert_hook(answer, "of-http", decision="deny")
    with pytest.raises(AssertionError, match="'nobody' did not run"):
        gateway.assert_hook(answer, "nobody")
    with pytest.raises(AssertionError, match=r"'hi' was sent upstream, in request \d+ at body.contents\[0\]"):
        gateway.assert_not_sent("hi")


def test_a_denial_for_another_reason_or_by_another_hook_is_reported(gateway: GatewayUnderTest) -> None:
    answer = gateway.ask("a command")
    with pytest.raises(
        AssertionError, match=r"no reason .* contains 'stop'\n(.*\n)*.*BeforeModel.: no commands"
    ):
        gateway.assert_denied(answer, reason="stop")
    with pytest.raises(AssertionError, match="'of-http' did not deny"):
        gateway.assert_denied(answer, hook="of-http")
    with pytest.raises(AssertionError, match="the call was denied, not answered"):
        gateway.assert_answered(answer)


@pytest.mark.parametrize(("on_error", "outcome"), [("deny", "denied"), ("allow", "answered")])
def test_a_failed_hook_is_taken_for_no_decision(on_error: str, outcome: str, tmp_path: Path) -> None:
    hook = {"name": "broken", "type": "command", "command": "exit 3", "on_error": on_error}
    with run_gateway({"hooks": {"BeforeModel": [{"hooks": [hook]}]}}, folder=tmp_path) as gateway:
        answer = gateway.ask("hi")
        assert gateway.receipt(answer)["outcome"] == outcome
        with pytest.raises(AssertionError, match=r"(.*\n)*.*broken.*failed 1 times: exit code"):
            gateway.assert_answered(answer)
        with pytest.raises(AssertionError, match=r"because a hook failed|answered, not denied"):
            gateway.assert_denied(answer)
        with pytest.raises(AssertionError, match="'broken' failed"):
            gateway.assert_hook(answer, "broken")


def test_a_blocked_tool_and_an_error_of_the_upstream_are_no_answers(gateway: GatewayUnderTest) -> None:
    tools = [{"functionDeclarations": [{"name": "rm"}]}]
    blocked = gateway.ask("a tool", tools=tools)
    assert blocked.function_calls == []
    assert [each["tool"] for each in gateway.receipt(blocked)["blocked"]] == ["rm"] * 3
    with pytest.raises(AssertionError, match="blocked, not answered"):
        gateway.assert_answered(blocked)
    failed = gateway.ask("a joke")
    assert (failed.status, failed.text) == (503, "overloaded")
    with pytest.raises(AssertionError, match="not answered"):
        gateway.assert_answered(failed)


def test_answers_of_other_clients_lead_to_their_receipts(gateway: GatewayUnderTest) -> None:
    url = f"{gateway.url}/v1beta/models/gemini-2.5-flash:generateContent"
    request = Request(url, b'{"contents": [{"parts": [{"text": "hey"}]}]}', {"x-goog-api-key": "k"})  # noqa: S310  # of the gateway's own URL
    with build_opener(ProxyHandler({})).open(request) as answer:
        answer.read()
        gateway.assert_answered(answer)
        assert gateway.receipt(answer) == gateway.receipts[-1]
    assert gateway.receipt(gateway.receipts[-1]["receipt"]) == gateway.receipts[-1]
    with pytest.raises(TypeError, match="dict has no header x-hookgate-receipt"):
        gateway.receipt({})
    with pytest.raises(LookupError, match="no receipt '0'"):
        gateway.receipt("0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hooks": "none.json"}, "none.json: cannot be read"),
        ({"hooks": {"hooks": {"BeforeModell": []}}}, "BeforeModell"),
        ({"script": {"rule": []}}, "rules"),
        ({"config": {"limits": {"body": "much"}}}, "config.limits.body: must be a whole number"),
        ({"config": {"audit": {"enabled": True}}}, "no section 'audit'"),
        ({"config": {"clients": {"issued_keys": True}}}, "clients.issued_keys cannot be set"),
    ],
)
def test_a_mistake_is_reported_as_by_the_gateway(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match=message), run_gateway(**arguments, folder=tmp_path):
        pass
    assert threading.active_count() == before


def test_each_gateway_has_a_new_state_and_does_not_touch_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    limit = {"rules": [{"per": "key", "window": "day", "requests": 1}]}
    once = {"name": "once", "type": "builtin", "builtin": "limits", "options": limit}
    pins = {"name": "pins", "type": "builtin", "builtin": "tools", "options": {"pin": "flag"}}
    settings = {"hooks": {"BeforeModel": [{"hooks": [once]}], "BeforeToolSelection": [{"hooks": [pins]}]}}
    tools = [{"functionDeclarations": [{"name": "rm"}]}]
    for _ in range(2):
        with run_gateway(settings, config={"transcripts": {"enabled": True}}, folder=tmp_path) as gateway:
            answer = gateway.ask("hi", tools=tools)
            gateway.assert_answered(answer)
            gateway.assert_hook(answer, "pins")
            gateway.assert_denied(gateway.ask("hi"), hook="once")
    assert list(tmp_path.iterdir()) == []
