#!/usr/bin/env python3
"""Denies commits whose message names no ticket, such as ABC-123."""

import json
import re
import sys

command = json.load(sys.stdin)["tool_input"].get("command", "")
if re.search(r"\bgit\s+commit\b", command) and not re.search(r"\b[A-Z]{2,10}-\d+\b", command):
    print("Name the ticket in the message of the commit, such as ABC-123.", file=sys.stderr)
    sys.exit(2)
