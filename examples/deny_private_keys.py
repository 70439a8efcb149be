#!/usr/bin/env python3
"""BeforeModel: refuse a prompt that contains a private key. Exit code 2 denies; stderr is the reason."""

import json
import sys

call = json.load(sys.stdin)
newest = [m["content"] for m in call["llm_request"]["messages"] if m["role"] == "user"][-1:]
if any("PRIVATE KEY-----" in text for text in newest):
    print("This prompt contains a private key. Remove it and ask again.", file=sys.stderr)
    sys.exit(2)
