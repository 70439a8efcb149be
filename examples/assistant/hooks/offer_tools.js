#!/usr/bin/env node
// BeforeToolSelection: offer the tools that the words of the prompt call for, besides those that read.
const READING = ["read_file", "list_directory", "glob", "search_file_content"];
const CALLED_FOR = [
  [/\b(fix|change|add|write|rename|refactor)/i, ["write_file", "replace"]],
  [/\b(run|tests?|build|install)\b/i, ["run_shell_command"]],
  [/\b(web|online|latest|release)/i, ["google_web_search", "web_fetch"]],
];

const { llm_request } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const prompt = llm_request.messages.filter((message) => message.role === "user").pop()?.content ?? "";
const wanted = CALLED_FOR.filter(([words]) => words.test(prompt)).flatMap(([, tools]) => tools);
if (wanted.length) {
  // AUTO: the model may also answer without a call.
  const toolConfig = { mode: "AUTO", allowedFunctionNames: [...READING, ...wanted] };
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: "BeforeToolSelection", toolConfig } }));
}
