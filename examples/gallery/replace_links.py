"""Replaces links in answers to hosts that are not known, so that a click sends nothing there."""

import re

KNOWN = ("example.com", "python.org")
# A backslash ends the host, as in browsers.
LINK = re.compile(r"https?://([^\s/\\)\]>\"':?#@]+)[^\s)\]>\"']*", re.IGNORECASE)


def _replaced(link: re.Match[str]) -> str:
    host = link[1].lower()
    known = "@" not in link[0] and any(host == name or host.endswith(f".{name}") for name in KNOWN)
    return link[0] if known else f"[link to {host} removed]"


async def replace(call: dict) -> dict | None:
    text = call["llm_response"]["text"]
    edited = LINK.sub(_replaced, text)
    return None if edited == text else {"hookSpecificOutput": {"llm_response": {"text": edited}}}
