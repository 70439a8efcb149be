// OpenAI's SDK: deletes a file and a response at a base URL. Prints a JSON line for each.
import OpenAI from "openai";

const [baseUrl] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "any", baseURL: `${baseUrl}/v1beta/openai/` });
for (const [resource, id] of [[client.files, "file-1"], [client.responses, "resp_1"]]) {
  await resource.delete(id);
  console.log(JSON.stringify(id));
}
