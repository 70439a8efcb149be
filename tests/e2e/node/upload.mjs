// Upload a text to the base URL named first, and read it again. Prints its name, and the texts of the answers to a
// prompt, whole and streamed, as JSON lines.
import { GoogleGenAI } from "@google/genai";

const [baseUrl, prompt] = process.argv.slice(2);
const model = "gemini-2.5-flash";
const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl } });

const file = await ai.files.upload({ file: new Blob(["hi"]), config: { mimeType: "text/plain" } });
console.log(JSON.stringify({ size: (await ai.files.get({ name: file.name })).sizeBytes }));
console.log(JSON.stringify({ text: (await ai.models.generateContent({ model, contents: prompt })).text }));
const pieces = [];
for await (const answer of await ai.models.generateContentStream({ model, contents: prompt })) {
  pieces.push(answer.text);
}
console.log(JSON.stringify({ text: pieces.join("") }));
