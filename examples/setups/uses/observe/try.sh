#!/bin/sh
# The address reaches the model unchanged. The receipt (in the panel) says that find-secrets would mask it.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.8-flash:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text": "Write to ada.lovelace@example.com."}]}]}
JSON
