// Deletes one of each kind of resource at a base URL. Prints a JSON line for each.
import { GoogleGenAI } from "@google/genai";

const [baseUrl] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl, apiVersion: "v1beta" } });
const deletions = [
  () => ai.caches.delete({ name: "cachedContents/1" }),
  () => ai.batches.delete({ name: "batches/1" }),
  () => ai.files.delete({ name: "files/1" }),
  () => ai.fileSearchStores.delete({ name: "fileSearchStores/1" }),
  () => ai.fileSearchStores.documents.delete({ name: "fileSearchStores/1/documents/1" }),
  () => ai.interactions.delete("v1_1"),
];
for (const deletion of deletions) {
  await deletion();
  console.log(JSON.stringify(String(deletion)));
}
