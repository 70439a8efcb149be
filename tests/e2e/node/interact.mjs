// Create an interaction, "whole", as a "stream" or in the "background", at a base URL, with a prompt. Prints a JSON line
// for each piece.
import { GoogleGenAI } from "@google/genai";

const [way, baseUrl, prompt] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl } });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", name: "get_weather", parameters }];
const asked = { model: "gemini-2.5-flash", input: prompt, tools };

function print(value) {
  console.log(JSON.stringify(value));
}

const ways = {
  async whole() {
    const answer = await ai.interactions.create(asked);
    for (const step of answer.steps ?? []) {
      if (step.type === "function_call") print({ call: { name: step.name, arguments: step.arguments } });
      for (const content of step.content ?? []) print({ text: content.text ?? "" });
    }
    print({ status: answer.status });
  },

  async stream() {
    for await (const event of await ai.interactions.create({ ...asked, stream: true })) {
      if (event.event_type === "step.delta" && event.delta.type === "text") print({ text: event.delta.text });
      if (event.event_type === "step.start" && event.step.type === "function_call") {
        print({ call: { name: event.step.name } });
      }
      if (event.event_type === "interaction.completed") print({ status: event.interaction.status });
      if (event.event_type === "error") print({ event: event.error });
    }
  },

  async background() {
    let answer = await ai.interactions.create({ ...asked, background: true });
    print({ status: answer.status });
    while (answer.status === "in_progress") {
      answer = await ai.interactions.get(answer.id);
      print({ status: answer.status });
    }
    print({ text: answer.output_text });
    const events = [];
    for await (const event of await ai.interactions.get(answer.id, { stream: true })) events.push(event);
    const after = { stream: true, last_event_id: events[2].event_id };
    for await (const event of await ai.interactions.get(answer.id, after)) print({ event: event.event_type });
    const next = await ai.interactions.create({ ...asked, previous_interaction_id: answer.id });
    print({ text: next.output_text });
  },
};

try {
  await ways[way]();
} catch (error) {
  print({ error: { name: error.name, status: error.status ?? error.statusCode, message: error.message } });
}
