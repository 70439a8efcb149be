// The columns of tables of calls.

import { el } from "./dom.js";
import { cost, count, ms, when } from "./format.js";
import { badge, callLink, decisions, sessionLink } from "./parts.js";

const COLUMNS = [
  { title: "Time", brief: true, cell: (call) => el("time", { datetime: new Date(call.at).toISOString() }, when(call.at)) },
  { title: "Call", brief: true, cell: (call) => callLink(call.id) },
  { title: "Outcome", brief: true, cell: (call) => badge(call.outcome) },
  { title: "Model or event", cell: (call) => call.event || call.model || el("span", { class: "muted" }, call.path || "–") },
  { title: "Session", cell: (call) => sessionLink(call.session, call.key) },
  { title: "Caller", cell: (call) => caller(call) },
  { title: "Hooks, and why", wide: true, cell: (call) => [decisions(call.hooks), why(call)] },
  { title: "Time taken", numeric: true, brief: true, cell: (call) => ms(call.ms) },
  { title: "Tokens in / out", numeric: true, cell: (call) => `${count(call.input_tokens)} / ${count(call.output_tokens)}` },
];

/** Return the columns. `currency` is that of costs. */
export const columns = (currency) => [...COLUMNS, { title: `Cost, ${currency}`, numeric: true, cell: (call) => cost(call.cost) }];

function caller(call) {
  const known = [call.key, call.team && `team ${call.team}`].filter(Boolean).join(", ");
  return el("span", {}, known || "no key", call.client && el("span", { class: "muted" }, ` ${call.client}`));
}

/** Return the reason of a call's outcome. Viewers are not told it. */
function why(call) {
  return call.reason ? el("p", { class: "why" }, call.reason) : null;
}

/** Return what was kept from the agent, and why, in words: one line for each blocked output, or one for the call. */
export function inWords(call) {
  const by = call.decided_by.length ? call.decided_by.join(", ") : "The gateway";
  if (call.outcome === "blocked") {
    const told = call.blocked?.length ? call.blocked : ["an output of the model"];
    return told.map((each) => `${by} kept this from the agent: ${each}`);
  }
  const verb = { denied: "denied the call", stopped: "stopped the agent", synthetic: "answered in the model's place" }[call.outcome];
  if (!verb) return call.reason ? [call.reason] : [];
  return [`${by} ${verb}${call.reason ? `: ${call.reason}` : "."}`];
}
