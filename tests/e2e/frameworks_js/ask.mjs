// A framework for JavaScript at a base URL, asked a prompt: FRAMEWORK, "unary" or "stream", BASE_URL, PROMPT, and
// "json" to ask for JSON instead of offering a tool, whose calls are answered.
// Prints a JSON line for each piece of text, or for the error.
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { concat } from "@langchain/core/utils/stream";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { z } from "zod";

const MODEL = "gemini-2.5-flash";
const KEY = "any";
const NAME = "get_weather";
const ABOUT = "The weather in a city.";
const CITY = z.object({ city: z.string() });
const weather = ({ city }) => `storm in ${city}`;

async function* genkit(streams, baseUrl, prompt, json) {
  const { genkit } = await import("genkit");
  const { googleAI } = await import("@genkit-ai/google-genai");
  const ai = genkit({ plugins: [googleAI({ apiKey: KEY, baseUrl })] });
  const { z } = await import("genkit");
  const about = { name: NAME, description: ABOUT, inputSchema: z.object({ city: z.string() }), outputSchema: z.string() };
  const offers = { tools: [ai.defineTool(about, async (input) => weather(input))] };
  const asked = { model: googleAI.model(MODEL), prompt, ...(json ? { output: { format: "json" } } : offers) };
  if (!streams) {
    yield (await ai.generate(asked)).text;
    return;
  }
  const { stream, response } = ai.generateStream(asked);
  response.catch(() => {}); // the stream reports it, too
  for await (const chunk of stream) yield chunk.text;
  await response;
}

async function* langchain(model, streams, prompt, json) {
  const asked = json ? model : model.bindTools([langchainTool(weather, { name: NAME, description: ABOUT, schema: CITY })]);
  const messages = [new HumanMessage(prompt)];
  for (;;) {
    let answer;
    for await (const chunk of streams ? await asked.stream(messages) : [await asked.invoke(messages)]) {
      yield chunk.text;
      answer = answer ? concat(answer, chunk) : chunk;
    }
    if (!answer.tool_calls?.length) return;
    messages.push(answer);
    for (const { args, id, name } of answer.tool_calls)
      messages.push(new ToolMessage({ content: weather(args), tool_call_id: id, name }));
  }
}

async function* langchainGenai(streams, baseUrl, prompt, json) {
  const { ChatGoogleGenerativeAI } = await import("@langchain/google-genai");
  yield* langchain(new ChatGoogleGenerativeAI({ model: MODEL, apiKey: KEY, baseUrl, json }), streams, prompt, json);
}

async function* langchainGoogle(streams, endpoint, prompt) {
  const { ChatGoogle } = await import("@langchain/google");
  yield* langchain(new ChatGoogle({ model: MODEL, apiKey: KEY, endpoint }), streams, prompt, false);
}

async function* generativeAi(streams, baseUrl, prompt, json) {
  const { GoogleGenerativeAI } = await import("@google/generative-ai");
  const parameters = { type: "OBJECT", properties: { city: { type: "STRING" } }, required: ["city"] };
  const offers = { tools: [{ functionDeclarations: [{ name: NAME, description: ABOUT, parameters }] }] };
  const options = json ? { generationConfig: { responseMimeType: "application/json" } } : offers;
  const chat = new GoogleGenerativeAI(KEY).getGenerativeModel({ model: MODEL, ...options }, { baseUrl }).startChat();
  let message = prompt;
  while (message.length) {
    const sent = streams ? await chat.sendMessageStream(message) : undefined;
    const calls = [];
    for await (const answer of sent?.stream ?? [(await chat.sendMessage(message)).response]) {
      yield answer.text();
      calls.push(...(answer.functionCalls() ?? []));
    }
    await sent?.response;
    message = calls.map(({ name, args }) => ({ functionResponse: { name, response: { result: weather(args) } } }));
  }
}

async function* aiSdk(streams, baseUrl, prompt, json) {
  const { generateText, isStepCount, Output, streamText, tool } = await import("ai");
  const google = createGoogleGenerativeAI({ baseURL: `${baseUrl}/v1beta`, apiKey: KEY });
  const offers = { tools: { [NAME]: tool({ description: ABOUT, inputSchema: CITY, execute: weather }) } };
  const options = json ? { output: Output.json() } : { ...offers, stopWhen: isStepCount(3) };
  const asked = { model: google(MODEL), prompt, ...options };
  if (!streams) {
    yield (await generateText(asked)).text;
    return;
  }
  let failure;
  yield* streamText({ ...asked, onError: ({ error }) => void (failure = error) }).textStream;
  if (failure) throw failure;
}

async function* mastra(streams, baseUrl, prompt) {
  const { Agent } = await import("@mastra/core/agent");
  const { createTool } = await import("@mastra/core/tools");
  const google = createGoogleGenerativeAI({ baseURL: `${baseUrl}/v1beta`, apiKey: KEY });
  const about = { id: NAME, description: ABOUT, inputSchema: CITY };
  const tools = { [NAME]: createTool({ ...about, execute: async (input) => weather(input) }) };
  const agent = new Agent({ id: "a", name: "a", instructions: "Be brief.", model: google(MODEL), tools });
  if (!streams) {
    yield (await agent.generate(prompt)).text;
    return;
  }
  const answer = await agent.stream(prompt);
  yield* answer.textStream;
  if (answer.error) throw answer.error;
}

const FRAMEWORKS = {
  genkit,
  "langchain-genai": langchainGenai,
  "langchain-google": langchainGoogle,
  "generative-ai": generativeAi,
  "ai-sdk": aiSdk,
  mastra,
};

const [framework, way, baseUrl, prompt, kind] = process.argv.slice(2);
try {
  for await (const text of FRAMEWORKS[framework](way === "stream", baseUrl, prompt, kind === "json"))
    console.log(JSON.stringify({ text: text ?? "" }));
} catch (error) {
  const status = error.statusCode ?? error.status ?? error.code ?? error.cause?.status;
  console.log(JSON.stringify({ error: { name: error.name, status, message: error.message } }));
}
