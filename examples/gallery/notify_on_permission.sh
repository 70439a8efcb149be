#!/usr/bin/env bash
# Appends a line to permissions.log when the agent asks its user for permission. Replace it with notify-send or mail.
jq -r '"\(.timestamp) \(.message)"' >> "$GEMINI_PROJECT_DIR/permissions.log"
