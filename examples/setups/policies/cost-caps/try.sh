#!/bin/sh
# The model is denied. Calls of gemini-3.8-flash are answered, with at most 8192 tokens.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.1-pro-preview:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text": "Good morning."}]}]}
JSON
