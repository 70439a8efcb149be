// One turn of a chat at the base URL named first, its tools run. Prints a JSON line for each piece.
// A third argument, "json", asks for JSON instead of offering tools.
import { GoogleGenAI } from "@google/genai";

const [baseUrl, prompt, kind] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl } });
const parameters = { type: "OBJECT", properties: { city: { type: "STRING" } }, required: ["city"] };
const declaration = { name: "get_weather", description: "The weather in a city.", parameters };

function responseTo(call) {
  return { functionResponse: { name: call.name, response: { result: `storm in ${call.args.city}` } } };
}

try {
  const offers = { tools: [{ functionDeclarations: [declaration] }] };
  const config = kind === "json" ? { responseMimeType: "application/json" } : offers;
  const chat = ai.chats.create({ model: "gemini-2.5-flash", config });
  let message = [{ text: prompt }];
  while (message.length) {
    const calls = [];
    for await (const answer of await chat.sendMessageStream({ message })) {
      const parts = answer.candidates?.[0]?.content?.parts ?? [];
      console.log(JSON.stringify({ text: parts.map((part) => part.text ?? "").join("") }));
      calls.push(...(answer.functionCalls ?? []));
    }
    message = calls.map(responseTo);
  }
} catch (error) {
  console.log(JSON.stringify({ error: { name: error.name, status: error.status, message: error.message } }));
}
