"""The form in which a client receives a verdict, and the session that a call belongs to."""

from typing import Any

import pytest
from support.wire import prompt

from hookgate.hooks import Configuration, Engine, Verdict
from hookgate.proxy.calls.endings import Replacement
from hookgate.proxy.calls.judge import DENIED, NOT_JSON, STOPPED, Judge, create_call_state
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.callers import Callers, named_session
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.routes.table import Route, match
from hookgate.translator.fields import read_list

ROUTE = match("POST", "/v1beta/models/m:generateContent")
USER: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}
MODEL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}
JSON = {"responseMimeType": "application/json"}

USERS_TURN = {"contents": [USER]}
TOOL_TURN = {"contents": [USER, MODEL, RESULT]}
USERS_JSON_TURN = {"contents": [USER], "generationConfig": JSON}
TOOL_JSON_TURN = {
    "contents": [USER, MODEL, RESULT],
    "generation_config": {"response_mime_type": "text/x-json"},
}


def judge_of(body: dict[str, Any], headers: dict[str, str] | None = None, route: Route = ROUTE) -> Judge:
    named = named_session(route, headers or {})
    caller = Callers().caller_for(route, headers or {})
    name = named or caller.conversation_id(read_list(body, "contents"))
    session = caller.in_session(name, create_call_state(route, body))
    return Judge.of_call(Engine(Configuration({})), CallRecord(), session, body)


def spoken(text: str) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}]}


# ---- the table of denials

DENY = Verdict(decision="deny", reason="No.")
STOP = Verdict(decision="deny", stop=True, reason="Enough.")
SYNTHETIC = Verdict(decision="deny", reason="No.", llm_response={"text": "Mine."})


@pytest.mark.parametrize("body", [USERS_TURN, USERS_JSON_TURN, TOOL_JSON_TURN, {}])
def test_a_denial_is_an_error(body: dict[str, Any]) -> None:
    answer = judge_of(body).ended_by(DENY, "BeforeModel")
    assert isinstance(answer, ApiError)
    assert (answer.code, answer.message, answer.reason) == (403, "No.", "POLICY_DENIED")
    assert answer.metadata == {"event": "BeforeModel"}


@pytest.mark.parametrize(
    "last",
    [
        RESULT,
        {"role": "function", "parts": [{"function_response": {"name": "f"}}, {"text": "and this"}]},
        {"parts": {"functionResponse": {"name": "f"}}},
    ],
)
def test_a_denial_is_spoken_where_an_error_would_make_the_client_nudge(last: dict[str, Any]) -> None:
    assert judge_of({"contents": [USER, MODEL, last]}).ended_by(DENY, "BeforeModel") == Replacement(
        spoken("No.")
    )


def test_a_tool_result_of_an_earlier_turn_does_not_count() -> None:
    answer = judge_of({"contents": [USER, MODEL, RESULT, USER]}).ended_by(DENY, "BeforeModel")
    assert isinstance(answer, ApiError)


@pytest.mark.parametrize("body", [USERS_TURN, TOOL_TURN])
def test_a_stop_is_spoken(body: dict[str, Any]) -> None:
    assert judge_of(body).ended_by(STOP, "AfterModel") == Replacement(spoken("Enough."))


@pytest.mark.parametrize("body", [USERS_JSON_TURN, TOOL_JSON_TURN])
def test_a_stop_is_an_error_where_json_was_asked_for(body: dict[str, Any]) -> None:
    answer = judge_of(body).ended_by(STOP, "AfterModel")
    assert isinstance(answer, ApiError)
    assert (answer.code, answer.message) == (403, "Enough.")


@pytest.mark.parametrize("body", [USERS_TURN, TOOL_TURN])
def test_a_synthetic_answer_is_sent_whatever_other_hooks_decide(body: dict[str, Any]) -> None:
    assert judge_of(body).ended_by(SYNTHETIC, "BeforeModel") == Replacement(spoken("Mine."))


def test_a_hooks_own_answer_to_a_call_for_json_has_to_be_json() -> None:
    answer = judge_of(USERS_JSON_TURN).ended_by(SYNTHETIC, "BeforeModel")
    assert isinstance(answer, ApiError)
    assert (answer.code, answer.message) == (403, NOT_JSON)
    fitting = Verdict(llm_response={"text": '{"a": 1}'})
    assert judge_of(USERS_JSON_TURN).ended_by(fitting, "BeforeModel") == Replacement(spoken('{"a": 1}'))


def test_a_denial_or_stop_without_a_reason_says_so() -> None:
    denial = judge_of(USERS_TURN).ended_by(Verdict(decision="deny"), "BeforeModel")
    assert isinstance(denial, ApiError)
    assert denial.message == DENIED
    assert judge_of(USERS_TURN).ended_by(Verdict(stop=True), "BeforeModel") == Replacement(spoken(STOPPED))


@pytest.mark.parametrize("decision", ["allow", "ask"])
def test_anything_else_lets_the_call_continue(decision: Any) -> None:
    assert judge_of(USERS_TURN).ended_by(Verdict(decision=decision, reason="Fine."), "BeforeModel") is None


# ---- sessions


def session(
    body: dict[str, Any] = USERS_TURN, target: str = "/v1/models/m:generateContent", **headers: str
) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return judge_of(body, named, match("POST", target)).session.session_id


def test_a_session_in_the_path_outranks_one_in_a_header() -> None:
    assert session(target="/s/path/v1/models/m:generateContent", x_hookgate_session="header") == "path"


def test_a_session_in_a_header_outranks_the_fingerprint() -> None:
    assert session(x_hookgate_session="header", x_goog_api_key="k") == "header"


@pytest.mark.parametrize("name", ["../../etc", "..", "a/b", "a b", "a\nb", "s\udcff", "x" * 129, ""])
def test_a_session_in_a_header_that_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(ApiError, match="session name") as refusal:
        session(x_hookgate_session=name)
    assert refusal.value.code == 400


def test_a_conversation_keeps_its_fingerprint_as_it_grows() -> None:
    first = session(USERS_TURN, x_goog_api_key="k", user_agent="cli")
    assert session(TOOL_TURN, x_goog_api_key="k", user_agent="cli") == first
    assert session({"contents": USER}, x_goog_api_key="k", user_agent="cli") == first
    assert len(first) == 32


def test_other_clients_and_conversations_have_other_fingerprints() -> None:
    other_turn = prompt("hello")
    found = [
        session(x_goog_api_key="k", user_agent="cli"),
        session(x_goog_api_key="other", user_agent="cli"),
        session(x_goog_api_key="k", user_agent="sdk"),
        session(authorization="Bearer k", user_agent="cli"),
        session(target="/v1/models/m:generateContent?key=q", user_agent="cli"),
        session(other_turn, x_goog_api_key="k", user_agent="cli"),
        session({}, x_goog_api_key="k", user_agent="cli"),
    ]
    assert len(set(found)) == len(found)


def test_a_key_is_the_same_client_in_the_header_and_in_the_query() -> None:
    in_query = session(target="/v1/models/m:generateContent?key=k", user_agent="cli")
    assert in_query == session(x_goog_api_key="k", user_agent="cli")


def test_a_fingerprint_does_not_tell_the_key() -> None:
    assert "canary" not in session(x_goog_api_key="canary")


def test_headers_of_any_bytes_have_a_fingerprint() -> None:
    assert session(user_agent="caf\udce9") != session(user_agent="cafe")
