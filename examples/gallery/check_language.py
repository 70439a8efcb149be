"""Sends an answer back once if most of its letters are not Latin."""

import unicodedata


async def check(call: dict) -> dict | None:
    letters = [character for character in call["prompt_response"] if character.isalpha()]
    foreign = sum("LATIN" not in unicodedata.name(character, "") for character in letters)
    if call["stop_hook_active"] or foreign * 2 <= len(letters):  # never twice, or it would have no end
        return None
    return {"decision": "deny", "reason": "Answer in English."}
