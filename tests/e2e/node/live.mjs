// Open a Live session at a base URL with a key, at the Gemini API or at "vertex", and say each prompt in turn. Prints a
// JSON line for each text of the model, and for the end of the session if the server ends it.
import { GoogleGenAI } from "@google/genai";

const [api, apiKey, baseUrl, ...prompts] = process.argv.slice(2);
const ai = new GoogleGenAI({ vertexai: api === "vertex", apiKey, httpOptions: { baseUrl } });
const print = (value) => console.log(JSON.stringify(value));

let turnEnds;
const callbacks = {
  onmessage(message) {
    const content = message.serverContent;
    for (const part of content?.modelTurn?.parts ?? []) print({ text: part.text });
    if (content?.turnComplete) turnEnds();
  },
  onerror: (event) => print({ error: event.message }),
  onclose(event) {
    print({ code: event.code, reason: event.reason });
    process.exit();
  },
};

try {
  const config = { responseModalities: ["TEXT"], systemInstruction: "Be brief." };
  const session = await ai.live.connect({ model: "gemini-live", config, callbacks });
  for (const text of prompts) {
    const ended = new Promise((resolve) => (turnEnds = resolve));
    session.sendClientContent({ turns: [{ role: "user", parts: [{ text }] }] });
    await ended;
  }
  session.close();
} catch (error) {
  print({ failed: error.message });
}
