// Create a response, "whole" or as a "stream", at a base URL, with a prompt and a key. Prints a JSON line for each piece.
import assert from "node:assert";
import OpenAI from "openai";

const [way, baseUrl, prompt, apiKey] = process.argv.slice(2);
const client = new OpenAI({ apiKey, baseURL: `${baseUrl}/v1beta/openai/` });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", name: "get_weather", parameters, strict: false }];
const asked = { model: "gemini-2.5-flash", input: prompt, tools };

function print(value) {
  console.log(JSON.stringify(value));
}

function printEnd(response, texts) {
  for (const item of response.output.filter(({ type }) => type === "function_call")) {
    print({ call: { name: item.name, arguments: JSON.parse(item.arguments) } });
  }
  texts.forEach((text) => print({ text }));
  print({ status: response.status });
}

const ways = {
  async whole() {
    const response = await client.responses.create(asked);
    printEnd(response, [response.output_text]);
  },

  async stream() {
    const stream = client.responses.stream(asked);
    const pieces = [];
    stream.on("response.output_text.delta", ({ delta }) => {
      pieces.push(delta);
      print({ text: delta });
    });
    const response = await stream.finalResponse();
    assert.equal(response.output_text, pieces.join(""));
    printEnd(response, []);
  },
};

try {
  await ways[way]();
} catch (error) {
  print({ error: { name: error.constructor.name, status: error.status, message: error.message } });
}
