"""Sends short conversations to a cheaper model."""

LIMIT = 500  # characters of all messages together


async def choose(call: dict) -> dict | None:
    request = call["llm_request"]
    size = sum(len(message["content"]) for message in request["messages"])
    if "-pro" in request["model"] and size < LIMIT:
        return {"hookSpecificOutput": {"llm_request": {"model": "gemini-3.8-flash"}}}
    return None
