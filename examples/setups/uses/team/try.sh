#!/bin/sh
# With a key of the team interns, the call is denied: interns use the flash models. Other keys are answered.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.1-pro-preview:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text": "Good morning."}]}]}
JSON
