#!/usr/bin/env node
// Withholds answers that are not JSON, for calls that ask for JSON: "when": {"json": true}.
const { text } = JSON.parse(require("fs").readFileSync(0, "utf8")).llm_response;
try {
  JSON.parse(text);
} catch (error) {
  console.log(JSON.stringify({ decision: "deny", reason: `The model's answer is not JSON: ${error.message}` }));
}
