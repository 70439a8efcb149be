"""Stops an agent that has called tools 25 times since the user's last message."""

LIMIT = 25


async def check(call: dict) -> dict | None:
    calls = 0
    for message in call["llm_request"]["messages"]:  # with "view": "parts"
        types = [part["type"] for part in message["content"]]
        calls += types.count("function_call")
        if message["role"] == "user" and "text" in types:
            calls = 0
    if calls < LIMIT:
        return None
    reason = f"The agent has called {calls} tools in a row. Say how to continue."
    return {"continue": False, "stopReason": reason}
