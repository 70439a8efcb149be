"""What the hooks of an event came to, as one output document for who told of the event. Pure."""

from hookgate.hooks.engine import Outcome
from hookgate.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, Event
from hookgate.hooks.events.tool import result_of
from hookgate.hooks.output import Output
from hookgate.translator import show_request, show_response
from hookgate.translator.fields import JsonObject


def output_of(event: Event, outcome: Outcome[Event]) -> Output:
    """One output of the contract that says what all of them say together; empty when nobody said anything.

    `event` is the event as it was fired. What hooks have edited is given whole, as it is after all edits.
    """
    verdict = outcome.verdict
    told: Output = {}
    if verdict.stop:
        told |= {"continue": False, "stopReason": verdict.reason}
    elif verdict.decision != "allow" or verdict.reason:
        told |= {"decision": verdict.decision, "reason": verdict.reason or None}
    told |= {"systemMessage": "\n".join(verdict.system_messages) or None}
    told |= {"suppressOutput": verdict.suppress_output or None}
    specific = {
        **_edits(event, outcome.event),
        "additionalContext": verdict.context,
        "llm_response": verdict.llm_response or _edits(event, outcome.event).get("llm_response"),
        "toolConfig": verdict.tool_config,
        "tools": verdict.tools,
        "tailToolCallRequest": verdict.tail_tool_call,
        "clearContext": verdict.clear_context or None,
    }
    specific = {key: value for key, value in specific.items() if value is not None}
    if specific:
        told["hookSpecificOutput"] = {"hookEventName": event.name, **specific}
    return {key: value for key, value in told.items() if value is not None}


def _edits(before: Event, after: Event) -> JsonObject:
    """What has been edited, in the words of the contract."""
    if after is before:
        return {}
    match after:
        case BeforeTool():
            return {"tool_input": after.tool_input}
        case AfterTool():
            return {"tool_result": result_of(after.tool_response)}
        case BeforeModel():
            return {"llm_request": show_request(after.model, after.body)}
        case AfterModel():
            return {"llm_response": show_response(after.body)}
    return {}
