#!/usr/bin/env python3
"""Adds a sentence to the system instruction of every call, once."""

import json
import sys

RULE = "Answer in British English, and cite the file that you read."

messages = json.load(sys.stdin)["llm_request"]["messages"]
system = next((message for message in messages if message["role"] == "system"), None)
if system is None:
    messages = [{"role": "system", "content": RULE}, *messages]
elif RULE not in system["content"]:
    system["content"] += f"\n\n{RULE}"
print(json.dumps({"hookSpecificOutput": {"llm_request": {"messages": messages}}}))
