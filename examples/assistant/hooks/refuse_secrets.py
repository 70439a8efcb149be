#!/usr/bin/env python3
"""BeforeTool: refuse to write what looks like a secret. Exit code 2 denies; the model reads stderr."""

import json
import re
import sys

SECRETS = {
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "an AWS access key": r"\bAKIA[0-9A-Z]{16}\b",
    "a Google API key": r"\bAIza[\w-]{35}",
    "a password or token": r"""(?i)(password|secret|token|api_?key)["']?\s*[:=]\s*["'][^"'\s]{8,}["']""",
}

written = json.load(sys.stdin)["tool_input"]
text = written.get("content") or written.get("new_string") or ""
found = [name for name, pattern in SECRETS.items() if re.search(pattern, text)]
if found:
    # The reason names the kind and never the secret: reasons are shown and logged.
    print(f"This would write {' and '.join(found)}. Read it from the environment instead.", file=sys.stderr)
    sys.exit(2)
