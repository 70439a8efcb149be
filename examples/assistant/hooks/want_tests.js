#!/usr/bin/env node
// AfterAgent: a change is not done until the answer says what the tests showed. Once: a second try may end.
const { prompt, prompt_response, stop_hook_active } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const isChange = /\b(fix|change|add|implement|refactor)/i.test(prompt);
if (isChange && !stop_hook_active && !/\btest/i.test(prompt_response)) {
  console.log(JSON.stringify({ decision: "deny", reason: "Run the tests, and say what they showed." }));
}
