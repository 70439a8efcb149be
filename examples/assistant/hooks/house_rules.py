#!/usr/bin/env python3
"""BeforeModel: put the house rules behind the system instruction, which the view shows as a first message."""

import json
import os
import sys
from pathlib import Path

rules = Path(os.environ["GEMINI_PROJECT_DIR"], "house-rules.md").read_text(encoding="utf-8")
messages = json.load(sys.stdin)["llm_request"]["messages"]
if messages and messages[0]["role"] == "system":
    messages[0]["content"] += f"\n\n{rules}"
else:
    messages.insert(0, {"role": "system", "content": rules})
print(
    json.dumps(
        {"hookSpecificOutput": {"hookEventName": "BeforeModel", "llm_request": {"messages": messages}}}
    )
)
