#!/usr/bin/env bash
# Tells the model today's date with each prompt.
printf '{"hookSpecificOutput": {"additionalContext": "Today is %s."}}\n' "$(date +%F)"
