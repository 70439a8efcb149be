#!/usr/bin/env python3
"""BeforeToolSelection: a question about where something is has to be looked up, not guessed.

Names on stdout make the model call one of these tools, so they are printed for the prompt alone and not
again once a tool has answered: the model could never come to an end. The view "parts" tells the two apart;
an agent that shows text alone does not, so there nothing is printed.
"""

import json
import re
import sys

messages = json.load(sys.stdin)["llm_request"]["messages"]
newest = messages[-1]["content"] if messages else []
texts = [part["text"] for part in newest if isinstance(part, dict) and part["type"] == "text"]
if len(texts) == len(newest) and re.search(r"\b(where|find|which file)\b", " ".join(texts), re.IGNORECASE):
    print("search_file_content,glob")
