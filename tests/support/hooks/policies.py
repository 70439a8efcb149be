"""Small policies as runtime hooks, for tests of clients: `runs(no_rockets)`."""

from typing import Any

Json = dict[str, Any]

CARD = "4111-1111-1111-1111"
REDACTED = "[card number]"
REFUSAL = "Rockets are not discussed here."
CANNED = "The policy answers this one itself."


def no_rockets(event: Json) -> Json | None:
    """BeforeModel: deny a call whose newest message speaks of rockets."""
    newest = event["llm_request"]["messages"][-1]["content"]
    return {"decision": "deny", "reason": REFUSAL} if "rocket" in newest.lower() else None


def stop_at_rockets(event: Json) -> Json | None:
    """BeforeModel: stop the agent where no_rockets denies the call."""
    return {"continue": False, "stopReason": REFUSAL} if no_rockets(event) else None


def answer_itself(_: Json) -> Json:
    """BeforeModel: a synthetic answer."""
    return {"hookSpecificOutput": {"llm_response": {"text": CANNED}}}


def name_the_session(event: Json) -> Json:
    """BeforeModel: a synthetic answer that tells which session the hook was shown."""
    return {"hookSpecificOutput": {"llm_response": {"text": f"session {event['session_id']}"}}}


def redact(event: Json) -> Json:
    """AfterModel: hand back the answer with the secret replaced, as a hook of the documents would."""
    response = event["llm_response"]
    for candidate in response["candidates"]:
        content = candidate["content"]
        content["parts"] = [part.replace(CARD, REDACTED) for part in content["parts"]]
    return {"hookSpecificOutput": {"llm_response": response}}


def only_weather(_: Json) -> Json:
    """BeforeToolSelection: of all tools, only get_weather is offered."""
    return {"hookSpecificOutput": {"toolConfig": {"mode": "AUTO", "allowedFunctionNames": ["get_weather"]}}}


def no_rocket_answers(event: Json) -> Json | None:
    """AfterModel: deny an answer, or an event of a stream, that speaks of rockets."""
    said = "".join("".join(one["content"]["parts"]) for one in event["llm_response"]["candidates"])
    return {"decision": "deny", "reason": REFUSAL} if "rocket" in said.lower() else None


def no_tool_results(event: Json) -> Json | None:
    """BeforeModel with the raw view: deny a call that brings the result of a tool."""
    newest = event["llm_request"]["contents"][-1]["parts"]
    reported = any("functionResponse" in part or "function_response" in part for part in newest)
    return {"decision": "deny", "reason": REFUSAL} if reported else None


def no_tools(_: Json) -> Json:
    """BeforeTool: deny every call."""
    return {"decision": "deny", "reason": "no tools today"}
