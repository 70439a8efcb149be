#!/usr/bin/env python3
"""PreCompress and SessionEnd: move the decisions in a session's recorded answers into the memory."""

import fcntl
import json
import os
import re
import sys
from pathlib import Path

MOST = 200  # decisions in the memory; then the oldest go

DECISION = re.compile(r"^[ *_]*decision:[ *_]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def decisions_in(record: Path) -> list[str]:
    """What follows `Decision:` in the answers, whose pieces are joined first: a stream splits anywhere."""
    if not record.exists():
        return []
    pieces = [json.loads(line) for line in record.read_text().splitlines()]
    text = "".join(piece["text"] + ("\n" if piece["is_end"] else "") for piece in pieces)
    return [decision.rstrip(" *_") for decision in DECISION.findall(text)]


def remember(memory: Path, decisions: list[str]) -> None:
    """Add to the memory what is not in it yet."""
    with memory.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two sessions may end at once
        file.seek(0)
        lines = dict.fromkeys([*file.read().splitlines(), *(f"- {decision}" for decision in decisions)])
        file.truncate(0)
        file.writelines(f"{line}\n" for line in list(lines)[-MOST:])


session = re.sub(r"\W", "-", json.load(sys.stdin)["session_id"])[:100]  # as record.py names it
state = Path(os.environ["GEMINI_PROJECT_DIR"], ".assistant")
record = state / "answers" / f"{session}.jsonl"
if found := decisions_in(record):
    remember(state / "memory.md", found)
    print(json.dumps({"systemMessage": f"Decisions remembered: {len(found)}"}))
record.unlink(missing_ok=True)
