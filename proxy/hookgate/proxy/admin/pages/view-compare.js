// What another policy would have decided of recorded calls: the choice of both, and the result while it grows.

import { get, post } from "./api.js";
import { el, fill } from "./dom.js";
import { count, plural, when } from "./format.js";
import { callLink, facts, heading, note, section } from "./parts.js";
import { RANGES, withRange, zoned } from "./query.js";
import { table } from "./table.js";

const POLL_MS = 1000;
const NOW = "the settings in force";

export async function showCompare({ person, announce }) {
  const title = "Compare policies";
  if (person.role === "viewer") return { title, node: [heading(title), note("To compare policies on recorded content, you need the role auditor.")] };
  const first = await get("hooks/compare");
  const input = el("input", { id: "compare-q", name: "q", type: "search", value: "since:1h", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const policy = el("select", { id: "compare-policy", name: "revision" }, el("option", { value: "" }, NOW),
    first.revisions.map((each) => el("option", { value: each.number }, named(each))));
  const start = el("button", { class: "primary" }, "Compare");
  const stop = el("button", { type: "button" }, "Stop");
  const problem = el("p", { class: "error", role: "alert" });
  const result = el("div", { class: "content" });
  const take = (range) => {
    input.value = withRange(input.value, range);
  };
  let timer = null;
  let closed = false;

  const draw = ({ comparison }, toldBefore = true) => {
    if (closed) return;
    const running = comparison?.state === "running";
    if (!running && stop === document.activeElement) start.focus();
    stop.hidden = !running;
    if (!running || !result.contains(document.activeElement)) fill(result, ...(comparison ? shown(comparison) : [])); // a link in it may have the focus
    if (running) timer = setTimeout(poll, POLL_MS);
    else if (!toldBefore) announce(told(comparison));
  };
  const ask = async (answer) => {
    clearTimeout(timer);
    fill(problem);
    await answer().then((found) => draw(found, false), (failure) => closed || fill(problem, failure.message.replace(/^q: /u, "")));
  };
  const poll = () => ask(() => get("hooks/compare"));
  const begin = (event) => {
    event.preventDefault();
    const revision = policy.value ? Number(policy.value) : null;
    return ask(() => post("hooks/compare", { q: zoned(input.value.trim()), revision }));
  };
  stop.addEventListener("click", () => ask(() => post("hooks/compare/stop", {})));
  draw(first);
  return {
    title,
    node: [
      heading(title),
      el("form", { class: "search", on: { submit: begin } },
        el("label", { for: "compare-q" }, "Calls, by a query"), el("div", { class: "search-line" }, input),
        el("div", { class: "buttons", role: "group", "aria-label": "Time" }, RANGES.map(([range, name]) => el("button", { type: "button", class: "quiet", on: { click: () => take(range) } }, name))),
        el("label", { for: "compare-policy" }, "Policy to try"), el("div", { class: "search-line" }, policy, start, stop), problem),
      note("Runs the hooks of a policy on stored calls, the newest 2,000 for up to a minute, beside the gateway's own calls. Limits count from zero. This is recorded with who did it."),
      result,
    ],
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
}

const named = ({ number, pushed, pushed_by: by, message }) => `revision ${number}, ${when(Date.parse(pushed))}, by ${by}${message ? `: ${message}` : ""}`;

const BOUNDS = { calls: "More calls match: only the newest ones were taken.", seconds: "The time was up: the latest of these calls were not reached." };

function told({ state, found = 0, report }) {
  const done = report ? report.replayed + report.without_content + report.refused : 0;
  return `${state}: ${count(done)} of ${plural(found, "call")}`;
}

function shown(comparison) {
  const { q, revision, by, began, bound, error, report } = comparison;
  return [
    section("Result", facts([
      ["state", told(comparison)],
      ["calls", q || "all"],
      ["policy", revision === null ? NOW : `revision ${revision}`],
      ["begun", `${when(Date.parse(began))}, by ${by}`],
      ["not compared", BOUNDS[bound]],
      ["problem", error],
      ...(report ? counts(report) : []),
    ])),
    ...(report ? [section("Outcomes of calls", changes("Outcomes that change", report.outcomes)),
      ...report.rules.map(({ event, hook, changes: found }) => section(`${hook}, ${event}`, changes(`What ${hook} decides otherwise on ${event}`, found)))] : []),
  ];
}

const counts = ({ replayed, unchanged, without_content: without, refused, cannot_say: unsure, failed }) => [
  ["replayed", count(replayed)],
  ["unchanged", count(unchanged)],
  ["left out", without ? `${count(without)}: their content is not stored` : ""],
  ["left out", refused ? `${count(refused)}: refused before any hook ran` : ""],
  ["cannot be compared", unsure.calls ? [`${count(unsure.calls)}: hooks saw more than is stored. `, receipts(unsure)] : ""],
  ...Object.entries(failed).map(([hook, times]) => [`${hook} failed`, `in ${plural(times, "call")}`]),
];

const receipts = ({ receipts: found }) => found.map((id, at) => [at > 0 && ", ", callLink(id)]);

const CHANGES = [
  { title: "Change", brief: true, wide: true, cell: ({ change }) => el("strong", {}, change) },
  { title: "Calls", numeric: true, cell: ({ calls }) => count(calls) },
  { title: "Why", wide: true, cell: ({ reasons }) => reasons.join("; ") || "–" },
  { title: "Such as", wide: true, cell: receipts },
];

const changes = (caption, found) => (found.length ? table(caption, CHANGES, found) : note("Nothing changes."));
