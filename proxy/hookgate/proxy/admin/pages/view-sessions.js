// Sessions, and one of them as a timeline of its calls and events.

import { get, querystring } from "./api.js";
import { inWords } from "./calls.js";
import { el, fill } from "./dom.js";
import { cost, count, ms, plural, when } from "./format.js";
import { Fresh } from "./fresh.js";
import { badge, callLink, chip, decisions, facts, heading, link, more, note, sessionAddress } from "./parts.js";
import { callsAddress, word, zoned } from "./query.js";
import { search, tried } from "./search.js";
import { row, table } from "./table.js";

const PAGE = 200;

function columns(currency) {
  return [
    { title: "Session", brief: true, cell: (each) => link(sessionAddress(each.session, each.key), el("code", {}, each.session)) },
    { title: "Last call", cell: (each) => when(each.last) },
    { title: "Caller", cell: (each) => [each.key || "no key", each.team && `, team ${each.team}`] },
    { title: "Client", cell: (each) => each.client || "–" },
    { title: "Models", wide: true, cell: (each) => each.models.join(", ") || "–" },
    { title: "Calls and events", numeric: true, cell: (each) => count(each.calls) },
    { title: "Denied", numeric: true, cell: (each) => count(each.denied) },
    { title: "Tokens", numeric: true, cell: (each) => count(each.tokens) },
    { title: `Cost, ${currency}`, numeric: true, cell: (each) => cost(each.cost) },
  ];
}

const listAddress = (q) => `#/sessions${querystring({ q })}`;

export async function showSessions({ query: given }) {
  const q = given.get("q") ?? "";
  const query = zoned(q);
  let [page, problem] = await tried(() => get("sessions", { q: query }));
  const form = search({ query: q, address: listAddress, problem });
  if (!page) return { title: "Sessions", node: [heading("Sessions"), form] };
  const shown = columns(page.currency);
  const list = table("Sessions, by their latest call", shown, page.sessions);
  const [further, button] = more("Load older sessions", async () => {
    page = await get("sessions", { q: query, before: page.older });
    const rows = page.sessions.map((each) => row(shown, each));
    list.querySelector("tbody").append(...rows);
    button.hidden = !page.older;
    rows[0]?.querySelector("a")?.focus();
  });
  button.hidden = !page.older;
  return {
    title: "Sessions",
    node: [heading("Sessions"), form, page.source === "memory" && note("The audit is off: the sums include only the calls that this gateway remembers."), list,
      page.sessions.length === 0 && note(q ? "No call in a session matches this query." : "No calls in a session yet."), further],
  };
}

export async function showSession({ parts: [id], query: given }) {
  const key = given.get("key");
  const query = [word("session", id), key !== null && word("owner", key)].filter(Boolean).join(" ");
  let page = await get("calls", { q: query, limit: PAGE });
  const audited = page.source === "audit";
  const list = el("ol", { class: "events" }, page.calls.toReversed().map(item));
  const known = new Set(page.calls.map((call) => call.id));
  const [earlier, button] = more("Load older calls", async () => {
    page = await get("calls", { q: query, limit: PAGE, before: page.older });
    page.calls.forEach((call) => known.add(call.id));
    list.prepend(...page.calls.toReversed().map(item));
    button.hidden = !page.older;
  });
  button.hidden = !page.older;
  const summary = el("div", { class: "card" });
  const tell = async (latest) => fill(summary, about(latest, query, audited && await get("report", { by: "session", q: query })));
  await tell(page.calls[0]);
  const fresh = new Fresh(async () => {
    const { calls } = await get("calls", { q: query, limit: PAGE });
    const added = calls.filter((call) => !known.has(call.id)).toReversed();
    added.forEach((call) => known.add(call.id));
    list.append(...added.map(item));
    if (added.length) await tell(calls[0]);
  });
  return {
    title: `Session ${id}`,
    node: [heading(`Session ${id}`), summary, earlier, list, page.calls.length === 0 && note("No call of this session is stored.")],
    live: (event) => event === "calls" && fresh.soon(),
    close: () => fresh.close(),
  };
}

/** Return facts about a whole session: those of its latest call, and the sums of a report. */
function about(latest, query, report) {
  const { calls, denied, stopped, blocked, input_tokens: input, output_tokens: output, cost: spent } = report?.total ?? {};
  return facts([
    ["key", latest?.key],
    ["team", latest?.team],
    ["client", latest?.client],
    ["latest call", latest && when(latest.at)],
    ...(report ? [
      ["calls and events", plural(calls, "entry", "entries")],
      ["denied, stopped, blocked", [denied, stopped, blocked].map(count).join(", ")],
      ["tokens in, out", `${count(input)}, ${count(output)}`],
      ["cost", `${cost(spent)} ${report.currency}`],
    ] : []),
    ["all calls", link(callsAddress(query), "as a list")],
  ]);
}

/** Return one call, what was kept from the agent in words, and the events for which its hooks ran. */
function item(call) {
  const events = new Map();
  for (const hook of call.hooks) events.set(hook.event, [...(events.get(hook.event) ?? []), hook]);
  const found = Object.entries(call.found).map(([kind, times]) => (times > 1 ? `${kind} ${count(times)}×` : kind)).join(", ");
  return el("li", { class: "card event" },
    el("div", { class: "event-head" }, el("time", { datetime: new Date(call.at).toISOString() }, when(call.at)), el("strong", {}, call.event || call.model || call.path), badge(call.outcome),
      callLink(call.id), el("span", { class: "muted" }, ms(call.ms)),
      call.input_tokens + call.output_tokens > 0 && el("span", { class: "muted" }, `${count(call.input_tokens)} tokens in, ${count(call.output_tokens)} out`)),
    inWords(call).map((line) => el("p", { class: "why" }, line)),
    found && el("p", { class: "muted" }, `found: ${found}`),
    call.event
      ? decisions(call.hooks)
      : el("ul", { class: "steps" }, [...events].map(([event, hooks]) => el("li", {}, el("span", { class: "muted" }, event), " ",
        hooks.map((hook) => chip(hook, "span"))))));
}
