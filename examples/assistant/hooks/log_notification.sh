#!/usr/bin/env bash
# Notification: log what the agent asked its user. The input is one line of JSON, and so is each entry.
set -e
log=$GEMINI_PROJECT_DIR/.assistant/notifications.jsonl
mkdir -p "${log%/*}"
entry=$(cat)
printf '%s\n' "$entry" >> "$log"
