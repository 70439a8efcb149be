// Formats bodies of requests and answers for people: the turns as text, tool calls as JSON.

/** Format a body. `as` is "text" or "json". */
export function written(body, as) {
  if (body === null || body === undefined) return "";
  if (as === "json" || typeof body !== "object") return json(body);
  const parts = [
    ...said("system", body.systemInstruction ?? body.system_instruction),
    ...list(body.contents).flatMap((content) => said(content?.role ?? "user", content)),
    ...list(body.candidates).flatMap((candidate, at) =>
      [...said(at ? `model (candidate ${at + 1})` : "model", candidate?.content),
        ...(candidate?.finishReason ? [`(finish reason: ${candidate.finishReason})`] : [])]),
  ];
  return parts.length ? parts.join("\n\n") : json(body);
}

/** Format an edited field: a text unchanged, other values as JSON. */
export function fieldText(fields) {
  if (fields === null || fields === undefined) return "";
  return Object.entries(fields).map(([name, value]) => `${name}:\n${lines(value)}`).join("\n\n");
}

const json = (value) => JSON.stringify(value, null, 2) ?? "";

const list = (value) => (Array.isArray(value) ? value : []);

function said(role, content) {
  const parts = list(content?.parts);
  if (parts.length === 0) return [];
  return [`${role}:\n${parts.map(part).join("\n")}`];
}

function part(each) {
  return typeof each?.text === "string" ? `${each.thought ? "(thought) " : ""}${each.text}` : json(each);
}

function lines(value) {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return json(value);
  const messages = value.every((each) => typeof each?.content === "string" && each?.role);
  return messages ? value.map((each) => `${each.role}: ${each.content}`).join("\n") : json(value);
}
