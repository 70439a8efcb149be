// Deletes one of each kind of resource at a base URL, whether or not it exists. Prints the status of each as a JSON line.
import { GoogleGenAI } from "@google/genai";

const [baseUrl] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl, apiVersion: "v1beta" } });
const deletions = [
  () => ai.caches.delete({ name: "cachedContents/1" }),
  () => ai.batches.delete({ name: "batches/1" }),
  () => ai.files.delete({ name: "files/1" }),
  () => ai.fileSearchStores.delete({ name: "fileSearchStores/1" }),
  () => ai.fileSearchStores.documents.delete({ name: "fileSearchStores/1/documents/1" }),
];
for (const deletion of deletions) {
  const status = await deletion().then(() => 200, (error) => error.status);
  console.log(JSON.stringify(status));
}
