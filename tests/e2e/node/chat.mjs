// Create a chat completion, "whole" or as a "stream", at a base URL, with a prompt and a key. Prints a JSON line for each piece.
import OpenAI from "openai";

const [way, baseUrl, prompt, apiKey] = process.argv.slice(2);
const client = new OpenAI({ apiKey, baseURL: `${baseUrl}/v1beta/openai/` });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
const asked = { model: "gemini-2.5-flash", messages: [{ role: "user", content: prompt }], tools };

function print(value) {
  console.log(JSON.stringify(value));
}

function printCalls(message) {
  for (const { function: called } of message.tool_calls ?? []) {
    print({ call: { name: called.name, arguments: JSON.parse(called.arguments) } });
  }
}

const ways = {
  async whole() {
    const [choice] = (await client.chat.completions.create(asked)).choices;
    printCalls(choice.message);
    print({ text: choice.message.content ?? "" });
    print({ status: choice.finish_reason });
  },

  async stream() {
    const stream = client.chat.completions.stream(asked);
    stream.on("content", (text) => print({ text }));
    const [choice] = (await stream.finalChatCompletion()).choices;
    printCalls(choice.message);
    print({ status: choice.finish_reason });
  },
};

try {
  await ways[way]();
} catch (error) {
  print({ error: { name: error.constructor.name, status: error.status, message: error.message } });
}
