#!/usr/bin/env node
// Adds --dry-run to `git push` and `npm publish`, so that an agent can only show what they would do.
const { command = "" } = JSON.parse(require("fs").readFileSync(0, "utf8")).tool_input;
const edited = command.replaceAll(/\b(git\s+push|npm\s+publish)\b(?!\s+--dry-run)/g, "$1 --dry-run");
if (edited !== command) {
  console.log(JSON.stringify({ hookSpecificOutput: { tool_input: { command: edited } } }));
}
