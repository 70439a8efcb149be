#!/bin/sh
# write_file is not offered to the model, so it answers in text.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.8-flash:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text": "Use a tool: write_file."}]}],
 "tools": [{"functionDeclarations": [{"name": "write_file", "parameters": {"type": "OBJECT", "required": ["file_path"],
   "properties": {"file_path": {"type": "STRING", "enum": ["notes.txt"]}}}}]}]}
JSON
