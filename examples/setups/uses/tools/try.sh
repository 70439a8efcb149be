#!/bin/sh
# The call to rm is denied. The model receives the reason, and answers again.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.8-flash:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text": "Use a tool: run_shell_command."}]}],
 "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parameters": {"type": "OBJECT", "required": ["command"],
   "properties": {"command": {"type": "STRING", "enum": ["rm -rf build"]}}}}]}]}
JSON
