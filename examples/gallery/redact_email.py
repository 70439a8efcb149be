"""Masks email addresses in answers, in the gateway's own process. The policy `redact` finds much more."""

import re

ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(\.[\w-]+)+")


async def redact(call: dict) -> dict | None:
    text = call["llm_response"]["text"]
    masked = ADDRESS.sub("[EMAIL]", text)
    if masked == text:
        return None
    return {"hookSpecificOutput": {"llm_response": {"text": masked}, "redacted": True}}
