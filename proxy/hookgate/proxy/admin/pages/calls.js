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
  { title: "Hooks", wide: true, cell: (call) => decisions(call.hooks) },
  { title: "Time taken", numeric: true, brief: true, cell: (call) => ms(call.ms) },
  { title: "Tokens in / out", numeric: true, cell: (call) => `${count(call.input_tokens)} / ${count(call.output_tokens)}` },
];

/** Return the columns. `currency` is that of costs; without a price table it is null, and there is no column for costs. */
export function columns(currency) {
  return currency ? [...COLUMNS, { title: `Cost, ${currency}`, numeric: true, cell: (call) => cost(call.cost) }] : COLUMNS;
}

function caller(call) {
  const known = [call.key, call.team && `team ${call.team}`].filter(Boolean).join(", ");
  return el("span", {}, known || "no key", call.client && el("span", { class: "muted" }, ` ${call.client}`));
}
