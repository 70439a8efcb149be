#!/usr/bin/env bash
# Tells the model at the start of a session what is in the project folder.
files=$(ls "$GEMINI_PROJECT_DIR" | head -n 20 | paste -sd ' ')
jq -cn --arg files "$files" '{hookSpecificOutput: {additionalContext: "The project folder contains: \($files)"}}'
