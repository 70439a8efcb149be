// Sessions, and one of them with its calls and events in order.

import { get, querystring } from "./api.js";
import { el, fill } from "./dom.js";
import { count, ms, plural, when } from "./format.js";
import { badge, callLink, chip, decisions, facts, heading, link, more, note, sessionAddress } from "./parts.js";
import { row, table } from "./table.js";

const PAGE = 200;

const COLUMNS = [
  { title: "Session", brief: true, cell: (each) => link(sessionAddress(each.session, each.key), el("code", {}, each.session)) },
  { title: "Last call", cell: (each) => when(each.last) },
  { title: "First seen here", cell: (each) => when(each.first) },
  { title: "Caller", cell: (each) => [each.key || "no key", each.team && `, team ${each.team}`] },
  { title: "Client", cell: (each) => each.client || "–" },
  { title: "Models", wide: true, cell: (each) => each.models.join(", ") || "–" },
  { title: "Calls", numeric: true, cell: (each) => count(each.calls) },
  { title: "Events", numeric: true, cell: (each) => count(each.events) },
  { title: "Denied", numeric: true, cell: (each) => count(each.denied) },
];

const identity = (each) => JSON.stringify([each.key, each.session]);

export async function showSessions() {
  let page = await get("sessions");
  const list = table("Sessions, by their latest call", COLUMNS, page.sessions);
  const seen = new Set(page.sessions.map(identity));
  const [further, button] = more("Load older sessions", async () => {
    page = await get("sessions", { before: page.older });
    const fresh = page.sessions.filter((each) => !seen.has(identity(each)));
    fresh.forEach((each) => seen.add(identity(each)));
    list.querySelector("tbody").append(...fresh.map((each) => row(COLUMNS, each)));
    button.hidden = !page.older;
  });
  button.hidden = !page.older;
  return {
    title: "Sessions",
    node: [heading("Sessions"), note("Sessions of the latest calls. The counts include only these calls."), list,
      page.sessions.length === 0 && note("No calls in a session yet."), further],
  };
}

export async function showSession({ parts: [id], query }) {
  const wanted = { session: id, key: query.get("key") ?? "", exact: 1, limit: PAGE };
  let page = await get("calls", wanted);
  const calls = page.calls.reverse();
  const list = el("ol", { class: "events" }, calls.map(item));
  const [earlier, button] = more("Load older calls", async () => {
    page = await get("calls", { ...wanted, before: page.older });
    list.prepend(...page.calls.reverse().map(item));
    button.hidden = !page.older;
  });
  button.hidden = !page.older;
  const known = new Set(calls.map((call) => call.id));
  const summary = el("div", { class: "card" });
  const tell = () => fill(summary, about(id, calls));
  tell();
  return {
    title: `Session ${id}`,
    node: [heading(`Session ${id}`), summary, earlier, list, calls.length === 0 && note("No call of this session is stored.")],
    live: (event, data) => {
      if (event !== "calls") return;
      for (const call of data.rows.filter((each) => each.session === id && (!wanted.key || each.key === wanted.key) && !known.has(each.id))) {
        known.add(call.id);
        calls.push(call);
        list.append(item(call));
      }
      tell();
    },
  };
}

function about(id, calls) {
  const last = calls[calls.length - 1];
  const sum = (name) => calls.reduce((total, call) => total + (call[name] ?? 0), 0);
  return facts([
    ["calls and events", plural(calls.length, "entry", "entries")],
    ["key", last?.key],
    ["team", last?.team],
    ["client", last?.client],
    ["from", calls.length && when(calls[0].at)],
    ["to", last && when(last.at)],
    ["tokens in, out", `${count(sum("input_tokens"))}, ${count(sum("output_tokens"))}`],
    ["all calls", link(`#/calls${querystring({ session: id, key: last?.key })}`, "as a list")],
  ]);
}

/** Return one call with the events for which its hooks ran. */
function item(call) {
  const events = new Map();
  for (const hook of call.hooks) events.set(hook.event, [...(events.get(hook.event) ?? []), hook]);
  return el("li", { class: "card event" },
    el("div", { class: "event-head" }, el("time", {}, when(call.at)), el("strong", {}, call.event || call.model || call.path), badge(call.outcome),
      callLink(call.id), el("span", { class: "muted" }, ms(call.ms))),
    call.event
      ? decisions(call.hooks)
      : el("ul", { class: "steps" }, [...events].map(([event, hooks]) => el("li", {}, el("span", { class: "muted" }, event), " ",
        hooks.map((hook) => chip(hook, "span"))))));
}
