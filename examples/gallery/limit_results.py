#!/usr/bin/env python3
"""Shortens tool results to 20,000 characters, and says so."""

import json
import sys

LIMIT = 20_000

result = json.load(sys.stdin)["tool_response"]
content = result if isinstance(result, str) else result.get("llmContent", result)
text = content if isinstance(content, str) else json.dumps(content)
if len(text) > LIMIT:
    short = f"{text[:LIMIT]}\n[{len(text) - LIMIT} characters left out]"
    print(json.dumps({"hookSpecificOutput": {"tool_result": {"llmContent": short}}}))
