"""Denies conversations of more than 400,000 characters, about 100,000 tokens."""

LIMIT = 400_000


async def check(call: dict) -> dict | None:
    size = sum(len(message["content"]) for message in call["llm_request"]["messages"])
    if size <= LIMIT:
        return None
    reason = f"The conversation has {size:,} characters, more than {LIMIT:,}. Start a new one."
    return {"continue": False, "stopReason": reason}
