#!/usr/bin/env bash
# BeforeTool: ask before a folder is removed; refuse when it lies outside of the project. This stops slips,
# not somebody who wants to get around it: a shell has a hundred ways to remove a file.
read_command='import json, sys; print(json.load(sys.stdin)["tool_input"].get("command", ""))'
command=$(python3 -c "$read_command") || exit 1 # on_error says what happens then

blank='[[:space:]]'
recursive="(^|[^[:alnum:]_.-])rm($blank+-[^[:space:]]+)*$blank+-(-recursive|[[:alpha:]]*[rR])"
outside="$recursive[^;&|]*$blank[\"']?(/|~|\\.\\.|\\\$\\{?HOME)"

if [[ $command =~ $outside ]]; then
  echo '{"decision": "deny", "reason": "Only what lies within the project may be removed."}'
elif [[ $command =~ $recursive ]]; then
  echo '{"decision": "ask", "reason": "This removes a folder with all that is in it."}'
fi
