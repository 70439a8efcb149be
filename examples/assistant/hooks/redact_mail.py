#!/usr/bin/env python3
"""AfterModel: mask mail addresses in answers.

Persistent: a streamed answer comes in many events, and a program that stays alive reads one a line. Under an
agent that starts it for each event it reads one line, and ends.
"""

import json
import re
import sys

MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")

for line in sys.stdin:
    candidates = json.loads(line)["llm_response"]["candidates"]
    found = 0
    for candidate in candidates:
        parts = candidate["content"]["parts"]
        for at, text in enumerate(parts):
            parts[at], masked = MAIL.subn("[mail address]", text)
            found += masked
    specific = {"llm_response": {"candidates": candidates}, "redacted": True}
    print(json.dumps({"hookSpecificOutput": specific} if found else {}), flush=True)
