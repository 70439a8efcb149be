#!/usr/bin/env python3
"""AfterTool: tell the model at once when a file it wrote does not parse."""

import ast
import json
import os
import sys
from pathlib import Path

PARSERS = {".py": ast.parse, ".json": json.loads}


def complaint(path: Path) -> str:
    """Return why the file does not parse; empty if it does, or if its type is not checked."""
    parse = PARSERS.get(path.suffix)
    try:
        if parse and path.exists():
            parse(path.read_bytes())
    except (SyntaxError, json.JSONDecodeError) as error:
        return f"line {error.lineno}: {error.msg}"
    except ValueError as error:  # bytes that are not text
        return str(error)
    return ""


name = json.load(sys.stdin)["tool_input"]["file_path"]
if problem := complaint(Path(os.environ["GEMINI_PROJECT_DIR"], name)):
    context = f"{name} does not parse: {problem}"
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": context}}))
