#!/usr/bin/env node
// BeforeModel: code wants the likely answer, not the surprising one. A lower temperature stays as it is.
const HIGHEST = 0.2;

const { llm_request } = JSON.parse(require("fs").readFileSync(0, "utf8"));
if ((llm_request.config?.temperature ?? 1) > HIGHEST) {
  const change = { config: { temperature: HIGHEST } };
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: "BeforeModel", llm_request: change } }));
}
