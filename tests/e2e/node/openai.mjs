// OpenAI's SDK at the base URL named first: streams a chat completion for a prompt, and runs its tool. Prints a JSON
// line for each piece. A third argument, "json", asks for JSON instead of offering tools.
import OpenAI from "openai";

const [baseUrl, prompt, kind] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "any", baseURL: `${baseUrl}/v1beta/openai/` });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = {
  name: "get_weather",
  description: "The weather in a city.",
  parameters,
  parse: JSON.parse,
  function: ({ city }) => `storm in ${city}`,
};
const offers = { tools: [{ type: "function", function: weather }] };
const options = kind === "json" ? { response_format: { type: "json_object" } } : offers;
const asked = { model: "gemini-2.5-flash", messages: [{ role: "user", content: prompt }], ...options };

try {
  const { completions } = client.chat;
  const runner = kind === "json" ? completions.stream(asked) : completions.runTools({ ...asked, stream: true });
  runner.on("content", (text) => console.log(JSON.stringify({ text })));
  await runner.done();
} catch (error) {
  const { constructor, status, message } = error;
  console.log(JSON.stringify({ error: { name: constructor.name, status, message } }));
}
