#!/usr/bin/env bash
# Limits answers to 2048 tokens, unless the client asks for fewer.
jq -c 'if (.llm_request.config.maxOutputTokens // 1e9) > 2048
       then {hookSpecificOutput: {llm_request: {config: {maxOutputTokens: 2048}}}} else {} end'
