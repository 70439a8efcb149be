#!/usr/bin/env node
// BeforeTool: end a written file with a newline. What is not named in tool_input stays as the model gave it.
const { tool_name, tool_input } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const content = tool_input.content;
if (tool_name === "write_file" && content && !content.endsWith("\n")) {
  const change = { content: `${content}\n` };
  console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: "BeforeTool", tool_input: change } }));
}
