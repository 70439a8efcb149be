#!/usr/bin/env node
// BeforeAgent: remind the model of the remembered decisions that share a word with the prompt.
const fs = require("fs");
const path = require("path");

const memory = path.join(process.env.GEMINI_PROJECT_DIR, ".assistant", "memory.md");

// Short words are in every sentence; without its "s", a plural finds the singular too.
const words = (text) => (text.toLowerCase().match(/\p{L}{4,}/gu) ?? []).map((word) => word.replace(/s$/, ""));

const { prompt } = JSON.parse(fs.readFileSync(0, "utf8"));
const asked = new Set(words(prompt));
const decisions = fs.existsSync(memory) ? fs.readFileSync(memory, "utf8").split("\n") : [];
const relevant = decisions.filter((decision) => words(decision).some((word) => asked.has(word)));
if (relevant.length) {
  const additionalContext = ["Keep to what was decided:", ...relevant.slice(-5)].join("\n");
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: "BeforeAgent", additionalContext } }));
}
