// Reports: the calls of all gateways, summed up by whom, model, day, hook or finding. Each row leads to its calls.

import { get } from "./api.js";
import { el } from "./dom.js";
import { cost, count, ms, plural, when } from "./format.js";
import { heading, link, note, section, tile, tiles } from "./parts.js";
import { callsAddress, during, withParts, word, zoned } from "./query.js";
import { choices, search, tried } from "./search.js";
import { table } from "./table.js";

const MOST = 200;

const number = (name, title, finds = "") => ({ name, title, finds, format: count });
const time = (name, title) => ({ name, title, finds: null, format: ms });

const CALLS = [
  number("calls", "Calls"), number("denied", "Denied", "outcome:denied"), number("stopped", "Stopped", "outcome:stopped"),
  number("blocked", "Blocked", "outcome:blocked"), number("failed", "Failed", "outcome:failed"), number("edited", "Edited", null),
];
const USED = [number("input_tokens", "Tokens in", null), number("output_tokens", "Tokens out", null)];
const COST = { name: "cost", title: "Cost", finds: null, format: cost };

/** The reports, by their view. `by` are its groups, the first one by default; `q` is the query of a first look. */
export const REPORTS = {
  people: {
    title: "People and teams", q: "since:7d", columns: [...CALLS, ...USED, COST],
    by: ["team,owner", "team", "owner", "key", "agent", "asked,model", "outcome", "day", "hour"],
  },
  spend: {
    title: "Spend", q: "since:30d sort:cost", columns: [CALLS[0], ...USED, COST], beside: budgets,
    by: ["team,owner", "team", "owner", "key", "model", "team,model", "agent", "session", "day", "day,model", "hour"],
  },
  findings: {
    title: "Findings", q: "since:30d", columns: [number("events", "Events"), number("findings", "Findings", null)],
    by: ["found,owner,model", "found", "found,team", "found,hook", "found,agent", "day,found"],
  },
  "hooks/runs": {
    title: "What hooks did", q: "since:7d", view: "hooks",
    columns: [number("events", "Events", null), number("runs", "Runs", null), number("denials", "Denied", null), number("would_deny", "Would deny", null),
      number("edits", "Edited", null), number("would_edit", "Would edit", null), number("failures", "Failed", null), time("median_ms", "Median"), time("p95_ms", "95 % within")],
    by: ["hook,event", "hook", "hook,event,team", "hook,team", "day,hook"], effects: true,
  },
};

const TITLES = {
  key: "Key", owner: "Owner", team: "Team", model: "Model", asked: "Asked model", agent: "Agent", outcome: "Outcome", session: "Session",
  hook: "Hook", event: "Event", found: "Found", hour: "Hour", day: "Day",
};
const NONE = { key: "no key", owner: "no key", team: "no team", model: "no model", asked: "no model", agent: "unknown", session: "no session" };

/** Return the function that shows a report. */
export const reportView = (name) => ({ query: given }) => showReport(name, REPORTS[name], given);

async function showReport(name, report, given) {
  const chosen = { by: given.get("by") ?? report.by[0], q: given.get("q") ?? report.q };
  const address = (change) => `#/${name}?${new URLSearchParams({ ...chosen, ...change })}`; // an empty query means all calls
  const by = chosen.by.split(",");
  const query = zoned(chosen.q, by.some((each) => ["hour", "day"].includes(each)));
  const [[answer, problem], beside] = await Promise.all([
    tried(() => get("report", { by: chosen.by, q: query, limit: MOST })), report.beside ? report.beside() : null,
  ]);
  const groups = report.by.includes(chosen.by) ? report.by : [...report.by, chosen.by];
  const node = [
    heading(report.title),
    search({ query: chosen.q, address: (q) => address({ q }), problem }),
    choices("By", groups.map((each) => [address({ by: each }), titleOf(each), each === chosen.by])),
    answer && [totals(report, answer), listed(report, by, query, answer)],
    beside,
  ];
  return { title: report.title, node };
}

const titleOf = (by) => by.split(",").map((each, at) => (at ? TITLES[each].toLowerCase() : TITLES[each]) ?? each).join(", ");

/** Return the columns of an answer; costs have a currency. */
function columnsOf(report, { currency }) {
  return report.columns.map((column) => (column.name === "cost" ? { ...column, title: `Cost, ${currency}` } : column));
}

function totals(report, answer) {
  const span = answer.since ? `${when(Date.parse(answer.since))} until ${answer.until ? when(Date.parse(answer.until)) : "now"}` : "No calls are recorded.";
  return [tiles(columnsOf(report, answer).map((column) => tile(column.title, column.format(answer.total[column.name]), ""))), note(span)];
}

function listed(report, by, query, answer) {
  if (answer.rows.length === 0) return note("No call matches this query.");
  const named = by.map((each, at) => ({ title: TITLES[each], brief: at === 0, wide: true, cell: (row) => nameIn(row, each, at === 0 && callsOf(report, by, query, row)) }));
  const amounts = columnsOf(report, answer).map((column) => ({ title: column.title, numeric: true, cell: (row) => amountIn(report, by, query, row, column) }));
  const more = answer.groups - answer.rows.length;
  return [table(`${report.title}, by ${titleOf(by.join(","))}`, [...named, ...amounts], answer.rows),
    more > 0 && note(`${plural(more, "more group")} not listed: a query that finds less lists them.`),
    report.effects && note("The calls of a hook are those in which it denied, answered, edited, found something or failed.")];
}

function nameIn(row, by, calls) {
  const name = row[by] || el("span", { class: "muted" }, NONE[by] ?? "none");
  return calls ? link(calls, name) : name;
}

function amountIn(report, by, query, row, column) {
  const value = row[column.name];
  if (column.name === "cost" && value === null) return el("span", { class: "muted" }, "no price");
  const told = column.format(value);
  return value && column.finds !== null ? link(callsOf(report, by, query, row, column.finds), told) : told;
}

/** Return the address of the calls of a row. */
function callsOf(report, by, query, row, finds = "") {
  const parts = by.map((each) => (["hour", "day"].includes(each) ? during(each, row[each]) : row[each] || !["hook", "event", "found"].includes(each) ? word(each, row[each]) : ""));
  return callsAddress(withParts(query, ...parts, finds));
}

/** Return how much of the limits is used. */
async function budgets() {
  const { budgets: found, prices } = await get("budgets");
  const amount = (row, value) => (row.measure === "cost" ? `${cost(value)} ${prices.currency}` : count(value));
  const whose = prices.shipped ? "Google's list prices" : "prices of the gateway's own table";
  return [note(`Costs are computed with ${whose}${prices.date ? ` of ${prices.date}` : ""}. Models that have no price there are not counted in these sums.`), section("Limits", found.length === 0
    ? note("No limit is in use: neither of the policy limits nor of an issued key. Limits per session are not listed.")
    : table("Limits, the most used first", [
      { title: "Of", brief: true, wide: true, cell: (row) => (row.per === "everyone" ? "everyone" : `${row.per} ${row.subject || "without a name"}`) },
      { title: "Used", brief: true, numeric: true, cell: (row) => `${((100 * row.used) / row.most).toFixed(0)} %` },
      { title: "Amount", numeric: true, cell: (row) => `${amount(row, row.used)} of ${amount(row, row.most)}` },
      { title: "What", cell: (row) => `${row.measure} per ${row.window}` },
      { title: "Models", wide: true, cell: (row) => row.models.join(", ") },
      { title: "Set by", wide: true, cell: (row) => row.source },
      { title: "Until", cell: (row) => when(row.ends) },
    ], found))];
}
