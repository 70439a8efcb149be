#!/usr/bin/env python3
"""SessionStart: tell the model what was decided in earlier sessions."""

import json
import os
from pathlib import Path

NEWEST = 20  # the others come up when a prompt touches them

memory = Path(os.environ["GEMINI_PROJECT_DIR"], ".assistant", "memory.md")
decisions = memory.read_text(encoding="utf-8").splitlines() if memory.exists() else []
if decisions:
    context = "\n".join(["Decided in earlier sessions:", *decisions[-NEWEST:]])
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": context}}))
