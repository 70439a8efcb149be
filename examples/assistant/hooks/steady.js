#!/usr/bin/env node
// BeforeModel: limit the temperature, because code needs likely answers. A lower one stays unchanged.
const HIGHEST = 0.2;

const { llm_request } = JSON.parse(require("fs").readFileSync(0, "utf8"));
if ((llm_request.config?.temperature ?? 1) > HIGHEST) {
  const change = { config: { temperature: HIGHEST } };
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: "BeforeModel", llm_request: change } }));
}
