#!/usr/bin/env node
// Appends the size and the tokens of each answer to answers.jsonl in the project folder. Runs persistently.
const { appendFileSync } = require("node:fs");
const { join } = require("node:path");

require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { cwd, session_id, timestamp, llm_response } = JSON.parse(line);
  const tokens = llm_response.usageMetadata?.totalTokenCount ?? null;
  const entry = { timestamp, session_id, characters: llm_response.text.length, tokens };
  appendFileSync(join(cwd, "answers.jsonl"), JSON.stringify(entry) + "\n");
  console.log("{}"); // exactly one line for each event
});
