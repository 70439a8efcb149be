#!/usr/bin/env bash
# BeforeModel: answer in the model's place. A llm_response in the output means that no model is asked.
input=$(cat)
if [[ $input == *"are you there?"* ]]; then
  echo '{"hookSpecificOutput": {"llm_response": {"text": "The gateway is here. No model was asked."}}}'
fi
