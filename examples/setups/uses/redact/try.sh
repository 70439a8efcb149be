#!/bin/sh
# The model sees [AWS_ACCESS_KEY] in place of the key.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.8-flash:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text": "Is AKIAQ3EGVB7SNLK2PZXD still valid?"}]}]}
JSON
