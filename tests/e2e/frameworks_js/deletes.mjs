// @google/generative-ai: deletes a file and a cached content at a base URL. Prints a JSON line for each.
import { GoogleAICacheManager, GoogleAIFileManager } from "@google/generative-ai/server";

const [baseUrl] = process.argv.slice(2);
await new GoogleAIFileManager("any", { baseUrl }).deleteFile("1");
console.log(JSON.stringify("files/1"));
await new GoogleAICacheManager("any", { baseUrl }).delete("cachedContents/1");
console.log(JSON.stringify("cachedContents/1"));
