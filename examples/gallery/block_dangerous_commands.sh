#!/usr/bin/env bash
# Denies commands that remove folders or run code from the network. The policy `tools` understands shells better.
command=$(jq -r '.tool_input.command // ""') || exit 2
if [[ $command =~ (^|[^[:alnum:]_.-])rm([[:space:]]+-[^[:space:]]+)*[[:space:]]+-(-recursive|[[:alpha:]]*[rR]) ]]; then
  echo "Folders are not removed. Name single files instead." >&2
  exit 2
elif [[ $command =~ (curl|wget)[^\;]*\|[[:space:]]*(sudo[[:space:]]+)?(ba|z|da)?sh([[:space:]]|$) ]]; then
  echo "Code from the network is not run. Download it, and read it first." >&2
  exit 2
fi
