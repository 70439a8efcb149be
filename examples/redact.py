"""AfterModel: mask mail addresses and passwords in answers, in the gateway's own process.

With `"stream": "window", "window": 64`, the hook finds what a stream splits, if it has at most 64 characters.
"""

import re
from typing import Any

SECRETS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<=password )\S+")


def redact(call: dict[str, Any]) -> dict[str, Any] | None:
    """Give the candidates back with their text masked, or nothing when there is nothing to mask."""
    candidates = call["llm_response"]["candidates"]
    found = False
    for candidate in candidates:
        parts = candidate["content"]["parts"]
        masked = [SECRETS.sub("[REDACTED]", text) for text in parts]
        found = found or masked != parts
        candidate["content"]["parts"] = masked
    return {"hookSpecificOutput": {"llm_response": {"candidates": candidates}}} if found else None
