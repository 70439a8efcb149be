// Call each method of @google/genai with a fetch that sends nothing. Prints a JSON line for each method of the client's
// collections: its name, and the first request of a client of the Gemini API and of one of Vertex AI, each as [method,
// target], or null if there is none.
import { GoogleGenAI, RawReferenceImage } from "@google/genai";
import { OAuth2Client } from "google-auth-library";

const image = { imageBytes: "eA==", mimeType: "image/png" };
const hi = [{ role: "user", parts: [{ text: "hi" }] }];
const file = new Blob(["hi"], { type: "text/plain" });
const store = "fileSearchStores/1";
const batch = (ai) => (ai.vertexai ? "projects/p/locations/l/batchPredictionJobs/1" : "batches/1");
const tuning = (ai) => (ai.vertexai ? "projects/p/locations/l/tuningJobs/1" : "tunedModels/1");
const video = (ai) => ({
  operation: {
    name: `${ai.vertexai ? "projects/p/locations/l/publishers/google/" : ""}models/m/operations/1`,
    _fromAPIResponse: () => ({}),
  },
});

const calls = {
  "models.generateContent": (ai) => ai.models.generateContent({ model: "m", contents: "hi" }),
  "models.generateContentStream": (ai) => ai.models.generateContentStream({ model: "m", contents: "hi" }),
  "models.countTokens": (ai) => ai.models.countTokens({ model: "m", contents: "hi" }),
  "models.computeTokens": (ai) => ai.models.computeTokens({ model: "m", contents: "hi" }),
  "models.embedContent": (ai) => ai.models.embedContent({ model: "gemini-embedding-001", contents: "hi" }),
  "models.generateImages": (ai) => ai.models.generateImages({ model: "m", prompt: "hi" }),
  "models.editImage": (ai) => {
    const reference = Object.assign(new RawReferenceImage(), { referenceId: 1, referenceImage: image });
    return ai.models.editImage({ model: "m", prompt: "hi", referenceImages: [reference] });
  },
  "models.upscaleImage": (ai) => ai.models.upscaleImage({ model: "m", image, upscaleFactor: "x2" }),
  "models.recontextImage": (ai) => ai.models.recontextImage({ model: "m", source: { prompt: "hi" } }),
  "models.segmentImage": (ai) => ai.models.segmentImage({ model: "m", source: { image } }),
  "models.generateVideos": (ai) => ai.models.generateVideos({ model: "m", source: { prompt: "hi" } }),
  "models.get": (ai) => ai.models.get({ model: "m" }),
  "models.list": (ai) => ai.models.list(),
  "models.update": (ai) => ai.models.update({ model: "tunedModels/m", config: { description: "hi" } }),
  "models.delete": (ai) => ai.models.delete({ model: "tunedModels/m" }),
  "caches.create": (ai) => ai.caches.create({ model: "m", config: { contents: "hi" } }),
  "caches.update": (ai) => ai.caches.update({ name: "cachedContents/1", config: { ttl: "60s" } }),
  "caches.get": (ai) => ai.caches.get({ name: "cachedContents/1" }),
  "caches.list": (ai) => ai.caches.list(),
  "caches.delete": (ai) => ai.caches.delete({ name: "cachedContents/1" }),
  "batches.create": (ai) =>
    ai.batches.create(
      ai.vertexai
        ? { model: "m", src: "gs://b/o", config: { dest: "gs://b/d" } }
        : { model: "m", src: [{ contents: hi }] },
    ),
  "batches.createEmbeddings": (ai) =>
    ai.batches.createEmbeddings({ model: "m", src: { inlinedRequests: { contents: hi } } }),
  "batches.get": (ai) => ai.batches.get({ name: batch(ai) }),
  "batches.list": (ai) => ai.batches.list(),
  "batches.cancel": (ai) => ai.batches.cancel({ name: batch(ai) }),
  "batches.delete": (ai) => ai.batches.delete({ name: batch(ai) }),
  "chats.create": (ai) => ai.chats.create({ model: "m" }).sendMessage({ message: "hi" }),
  "tunings.tune": (ai) =>
    ai.tunings.tune({
      baseModel: "m",
      trainingDataset: ai.vertexai ? { gcsUri: "gs://b/o" } : { examples: [{ textInput: "hi", output: "ho" }] },
    }),
  "tunings.get": (ai) => ai.tunings.get({ name: tuning(ai) }),
  "tunings.list": (ai) => ai.tunings.list(),
  "tunings.cancel": (ai) => ai.tunings.cancel({ name: tuning(ai) }),
  "tunings.validateReward": (ai) =>
    ai.tunings.validateReward({
      parent: "projects/p/locations/l",
      sampleResponse: hi[0],
      example: {},
      singleRewardConfig: {},
    }),
  "files.upload": (ai) => ai.files.upload({ file, config: { mimeType: "text/plain" } }),
  "files.registerFiles": (ai) => ai.files.registerFiles({ auth: login(), uris: ["gs://b/o"] }),
  "files.get": (ai) => ai.files.get({ name: "files/1" }),
  "files.list": (ai) => ai.files.list(),
  "files.download": (ai) => ai.files.download({ file: "files/1", downloadPath: "/dev/null" }),
  "files.delete": (ai) => ai.files.delete({ name: "files/1" }),
  "fileSearchStores.create": (ai) => ai.fileSearchStores.create({ config: { displayName: "hi" } }),
  "fileSearchStores.get": (ai) => ai.fileSearchStores.get({ name: store }),
  "fileSearchStores.list": (ai) => ai.fileSearchStores.list(),
  "fileSearchStores.delete": (ai) => ai.fileSearchStores.delete({ name: store }),
  "fileSearchStores.importFile": (ai) =>
    ai.fileSearchStores.importFile({ fileSearchStoreName: store, fileName: "files/1" }),
  "fileSearchStores.uploadToFileSearchStore": (ai) =>
    ai.fileSearchStores.uploadToFileSearchStore({ fileSearchStoreName: store, file }),
  "fileSearchStores.downloadMedia": (ai) => ai.fileSearchStores.downloadMedia(`${store}/media/1`),
  "fileSearchStores.documents.get": (ai) => ai.fileSearchStores.documents.get({ name: `${store}/documents/1` }),
  "fileSearchStores.documents.list": (ai) => ai.fileSearchStores.documents.list({ parent: store }),
  "fileSearchStores.documents.delete": (ai) => ai.fileSearchStores.documents.delete({ name: `${store}/documents/1` }),
  "operations.get": (ai) => ai.operations.get(video(ai)),
  "operations.getVideosOperation": (ai) => ai.operations.getVideosOperation(video(ai)),
  "authTokens.create": (ai) => ai.authTokens.create({ config: { uses: 1 } }),
  "interactions.create": (ai) => ai.interactions.create({ model: "m", input: "hi" }),
  "interactions.get": (ai) => ai.interactions.get("i"),
  "interactions.cancel": (ai) => ai.interactions.cancel("i"),
  "interactions.delete": (ai) => ai.interactions.delete("i"),
  "decisions.create": (ai) =>
    ai.decisions.create({
      model: "models/m",
      input: "hi",
      questions: { q: { type: "noul", instructions: "ok?" } },
    }),
};

// Helpers that the language does not hide.
const helpers = new Set([
  ...["generateContentWithContinuation", "generateContentStreamWithContinuation"],
  ...["maybeMoveToResponseJsonSchema", "processParamsMaybeAddMcpUsage", "initAfcToolsMap", "processAfcStream"],
  ...["createInlinedGenerateContentRequest", "getGcsUri", "getBigqueryUri", "formatDestination"],
  ...["constructor", "getClient", "isCallableTool"],
]);
const isMethod = (name) => !helpers.has(name) && !name.startsWith("_") && !name.endsWith("Internal");

function login() {
  const client = new OAuth2Client();
  client.setCredentials({ access_token: "any", expiry_date: Date.now() + 3_600_000 });
  return client;
}

function* prototypes(object) {
  for (; object && object !== Object.prototype; object = Object.getPrototypeOf(object)) yield object;
}

// What collections refer to besides the collections in them.
const internals = new Set(["apiClient", "auth", "modelsModule", "parentClient", "webSocketFactory"]);

function* methodsIn(collection, name) {
  for (const owner of prototypes(collection)) {
    for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (typeof value === "function" && isMethod(key)) yield `${name}.${key}`;
      else if (value !== null && typeof value === "object" && !internals.has(key)) yield* methodsIn(value, `${name}.${key}`);
    }
  }
}

function methodsOf(ai) {
  const collections = [...Object.keys(ai), ...Object.getOwnPropertyNames(GoogleGenAI.prototype)];
  const found = collections
    .filter((name) => !internals.has(name) && ai[name] !== null && typeof ai[name] === "object")
    .flatMap((name) => [...methodsIn(ai[name], name)]);
  return new Set(found);
}

let sent = [];
globalThis.fetch = async (input, init) => {
  const request = new Request(input, { ...init, body: undefined });
  const { pathname, search } = new URL(request.url);
  sent.push([request.method, pathname + search]);
  const upload = { "x-goog-upload-url": "http://gate/upload/v1beta/files?upload_id=1" };
  const headers = { "content-type": "application/json", "x-goog-upload-status": "final", ...upload };
  return new Response("{}", { headers });
};

const httpOptions = { baseUrl: "http://gate" };
const gemini = new GoogleGenAI({ apiKey: "k", httpOptions });
const vertex = new GoogleGenAI({
  vertexai: true,
  project: "p",
  location: "l",
  googleAuthOptions: { authClient: login() },
  httpOptions,
});

async function firstRequest(call, ai) {
  sent = [];
  try {
    await call(ai);
  } catch (error) {
    // Of the empty answer, or because the API lacks the method.
    if (process.env.DEBUG) console.error(error);
  }
  return sent[0] ?? null;
}

console.warn = () => {};
for (const method of methodsOf(gemini)) {
  const call = calls[method];
  const requests = call && [await firstRequest(call, gemini), await firstRequest(call, vertex)];
  console.log(JSON.stringify({ method, requests: requests ?? null }));
}
