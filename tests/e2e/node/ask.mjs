// Ask the way named first, at the base URL named second, with a prompt. Prints a JSON line for each piece.
import { GoogleGenAI } from "@google/genai";

const [way, baseUrl, prompt] = process.argv.slice(2);
const model = "gemini-2.5-flash";
const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl } });

function print(value) {
  console.log(JSON.stringify(value));
}

function printAnswer(answer) {
  // Its own `text` warns about parts that are not text.
  const parts = answer.candidates?.[0]?.content?.parts ?? [];
  print({ text: parts.map((part) => part.text ?? "").join("") });
}

const ways = {
  async generate() {
    printAnswer(await ai.models.generateContent({ model, contents: prompt }));
  },

  async stream() {
    for await (const answer of await ai.models.generateContentStream({ model, contents: prompt })) {
      printAnswer(answer);
    }
  },

  async chat() {
    const chat = ai.chats.create({ model });
    printAnswer(await chat.sendMessage({ message: prompt }));
    for await (const answer of await chat.sendMessageStream({ message: "and then?" })) {
      printAnswer(answer);
    }
  },

  async tool() {
    const parameters = { type: "OBJECT", properties: { city: { type: "STRING" } }, required: ["city"] };
    const declaration = { name: "get_weather", description: "The weather in a city.", parameters };
    const chat = ai.chats.create({ model, config: { tools: [{ functionDeclarations: [declaration] }] } });
    const answer = await chat.sendMessage({ message: prompt });
    printAnswer(answer);
    for (const call of answer.functionCalls ?? []) {
      print({ call: { name: call.name, args: call.args } });
      const response = { result: `storm in ${call.args.city}` };
      printAnswer(await chat.sendMessage({ message: { functionResponse: { name: call.name, response } } }));
    }
  },
};

try {
  await ways[way]();
} catch (error) {
  print({ error: { status: error.status, message: error.message } });
}
