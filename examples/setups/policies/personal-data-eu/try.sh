#!/bin/sh
# The model sees HG_EMAIL_… and HG_IBAN_…; you receive the originals. The receipt names what was found.
curl -sS "${HOOKGATE_URL:-http://127.0.0.1:8787}/v1beta/models/gemini-3.8-flash:generateContent" \
  -H "x-goog-api-key: ${GEMINI_API_KEY:-any}" -d @- <<'JSON'
{"contents": [{"role": "user", "parts": [{"text":
  "Send the invoice to erika.mustermann@example.com, account DE89 3704 0044 0532 0130 00."}]}]}
JSON
