#!/usr/bin/env bash
# Stops calls whose newest turn contains a private key. Shown by every client as one sentence.
if jq -e '[.llm_request.messages[] | select(.role == "user")] | last | .content | tostring | test("PRIVATE KEY-----")' \
    > /dev/null; then
  echo '{"continue": false, "stopReason": "Your message contains a private key. Remove it, and send it again."}'
fi
