#!/usr/bin/env python3
"""AfterModel: record the session's answers, a line for each event of a stream.

Persistent, as redact_mail.py is. The client names the session: its name must not lead out of the folder.
"""

import json
import os
import re
import sys
from pathlib import Path

answers = Path(os.environ["GEMINI_PROJECT_DIR"], ".assistant", "answers")
answers.mkdir(parents=True, exist_ok=True)

for line in sys.stdin:
    call = json.loads(line)
    response = call["llm_response"]
    text = response.get("text", "")
    is_end = any(candidate.get("finishReason") for candidate in response["candidates"])
    if text or is_end:
        session = re.sub(r"\W", "-", call["session_id"])[:100]
        with (answers / f"{session}.jsonl").open("a") as file:
            file.write(json.dumps({"time": call["timestamp"], "text": text, "is_end": is_end}) + "\n")
    print("{}", flush=True)
