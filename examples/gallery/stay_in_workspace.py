#!/usr/bin/env python3
"""Denies tools that name a path outside of the project folder."""

import json
import sys
from pathlib import Path

call = json.load(sys.stdin)
workspace = Path(call["cwd"]).resolve()
named = [value for key, value in call["tool_input"].items() if key.endswith("path")]
paths = [value for value in named if isinstance(value, str)]
for path in paths:
    # Joining keeps an absolute path as it is; resolve() follows `..` and links.
    if not (workspace / path).resolve().is_relative_to(workspace):
        print(json.dumps({"decision": "deny", "reason": f"{path} is outside of the project folder."}))
        break
