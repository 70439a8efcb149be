// Ask OpenAI's SDK at a base URL, run the tools that the streamed answers call, and print the last one as a JSON line.
import { execSync } from "node:child_process";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [baseUrl, prompt] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "any", baseURL: `${baseUrl}/v1beta/openai/` });

function tool(name, parameter, run) {
  const parameters = { type: "object", properties: { [parameter]: { type: "string" } }, required: [parameter] };
  const called = (given) => run(given[parameter]);
  return { type: "function", function: { name, function: called, parse: JSON.parse, parameters } };
}

const tools = [
  tool("run_shell_command", "command", (command) => execSync(command).toString()),
  tool("read_file", "file_path", (path) => readFileSync(path).toString()),
];
const messages = [{ role: "user", content: prompt }];
const runner = client.chat.completions.runTools({ model: "gemini-2.5-flash", messages, tools, stream: true });
console.log(JSON.stringify({ text: await runner.finalContent() }));
