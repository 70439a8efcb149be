#!/usr/bin/env bash
# Stops calls whose newest turn contains a private key. Shown by every client as one sentence.
jq -e '[.llm_request.messages[] | select(.role == "user")] | last | .content | tostring | test("PRIVATE KEY-----")' \
  > /dev/null
case $? in
  0) echo '{"continue": false, "stopReason": "Your message contains a private key. Remove it, and send it again."}' ;;
  1) ;; # not found
  *) exit 1 ;; # jq is missing or failed: "on_error": "deny" denies the call
esac
