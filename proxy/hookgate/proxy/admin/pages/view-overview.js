// The overview: whether all is well, the last hour and day of all gateways, and the policy in force.

import { get } from "./api.js";
import { inWords } from "./calls.js";
import { chart } from "./chart.js";
import { el, fill } from "./dom.js";
import { clock, cost, count, ms, plural, when } from "./format.js";
import { Fresh } from "./fresh.js";
import { badge, callLink, facts, heading, link, note, section, tile, tiles } from "./parts.js";
import { callsAddress, withParts } from "./query.js";

const FRESH_MS = 3000;
const HOUR_MS = 3_600_000;
const HOURS = 24;
const LATEST = 6;
const GUARDED = ["denied", "stopped", "blocked"];

export async function showOverview() {
  const node = { state: el("div"), figures: el("div"), charts: el("div", { class: "charts" }), blocked: el("div"), policy: el("div") };
  const draw = (data) => {
    fill(node.state, state(data));
    fill(node.figures, figures(data));
    // An open table, or a chart under the pointer, must not be replaced.
    if (!node.charts.querySelector("details[open]") && !node.charts.matches(":hover")) fill(node.charts, charts(data));
    if (!node.blocked.contains(document.activeElement)) fill(node.blocked, blocked(data));
    if (!node.policy.contains(document.activeElement)) fill(node.policy, inForce(data.overview));
  };
  draw(await load());
  const fresh = new Fresh(async () => draw(await load()), FRESH_MS);
  return {
    title: "Overview",
    node: [heading("Overview"), node.state, node.figures, node.charts, node.blocked, node.policy],
    live: () => fresh.soon(),
    close: () => fresh.close(),
  };
}

/** Return what the gateway says: with the audit, the sums of all gateways; without it, those of this one. */
async function load() {
  const [overview, latest] = await Promise.all([get("overview"), get("calls", { q: "outcome:guarded", limit: LATEST })]);
  const [traffic, day] = await Promise.all([get("traffic"), get("traffic", { span: "day" })]);
  if (overview.calls_from !== "audit") return { overview, latest, traffic, day };
  const [hour, hooks, hours] = await Promise.all([
    get("report", { by: "outcome", q: "since:1h" }), get("report", { by: "hook", q: "since:1h" }),
    get("report", { by: "hour,outcome", q: `since:${HOURS}h`, limit: 200 }),
  ]);
  return { overview, latest, traffic, day, hour, hooks, hours };
}

/** Return whether all is well, or what is wrong now. */
function state(data) {
  const found = troubles(data);
  const audited = data.hour && "the audit is written, ";
  return section("State", found.length === 0
    ? el("p", { class: "state" }, badge("on", "All is well"), ` Every hook's last run succeeded, ${audited || ""}and no call failed in the last hour.`)
    : el("ul", { class: "list state" }, found.map((each) => el("li", {}, each))));
}

function troubles({ overview, hour, hooks, traffic }) {
  const { readiness, hooks: configured, not_in_force: layers = [] } = overview;
  const ran = hooks ? hooks.total : { runs: sum(configured, "count"), failures: sum(configured, "failures") };
  const failed = hour ? sum(hour.rows.filter((row) => ["failed", "interrupted"].includes(row.outcome)), "calls") : traffic.total.outcomes.failed;
  return [
    !["ready", "starting"].includes(readiness.status) && [badge("failed", "Not ready"), ` ${readiness.reason}`],
    ...layers.map((layer) => [badge("refused", "Not in use"), ` Changed settings are not in use since ${layer.since} (${layer.layer}): ${layer.reason}`]),
    ...configured.filter((hook) => ["degraded", "untrusted"].includes(hook.state)).map((hook) => [badge(hook.state), " ",
      link("#/hooks", hook.name), ` on ${hook.event}: `, hook.last_error || hook.refusal || "its last run failed"]),
    failed > 0 && [badge("failed", "Calls failed"), " ",
      link(callsAddress("outcome:failed,interrupted since:1h"), plural(failed, "call")), " had no answer in the last hour, because the upstream or the gateway failed."],
    ran.failures > 0 && [badge("degraded", "Hooks failed"), " ",
      link("#/hooks/runs?by=hook&q=since:1h", `${count(ran.failures)} of ${plural(ran.runs, "run")}`), ` of hooks failed ${hooks ? "in the last hour" : "since this gateway started"}.`],
  ].filter(Boolean);
}

const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);

function figures({ overview, hour, traffic }) {
  const running = overview.hooks.filter((hook) => !["off", "shadowed"].includes(hook.state)).length;
  const total = hour?.total ?? { ...traffic.total, ...traffic.total.outcomes };
  const denied = GUARDED.reduce((all, name) => all + total[name], 0);
  const found = (q, text) => (hour ? link(callsAddress(withParts(q, "since:1h")), text) : text);
  const share = total.calls ? `${((100 * denied) / total.calls).toFixed(1)} % of calls` : "no calls";
  const where = hour ? "last hour, all gateways" : `this gateway since ${when(Math.max(traffic.since, Date.now() - HOUR_MS))}`;
  const tokens = hour ? total.input_tokens + total.output_tokens : total.tokens;
  return tiles([
    tile("Calls", found("", count(total.calls)), where),
    tile("Denied, stopped, blocked", found("outcome:guarded", count(denied)), share),
    tile("Failed", found("outcome:failed", count(total.failed)), "no answer from upstream"),
    hour ? tile(`Cost, ${hour.currency}`, link("#/spend?by=team,owner&q=since:1h+sort:cost", cost(Number(total.cost.toFixed(4)))), `${count(tokens)} tokens`) : tile("Tokens", count(tokens), "in and out"),
    tile("Hooks running", link("#/hooks", count(running)), overview.content === "off" ? "content is not stored" : `content stored: ${overview.content}`),
    typeof overview.approvals_pending === "number" && tile("Approvals", link("#/approvals", count(overview.approvals_pending)), "calls that wait for a person"),
    tile("Latency, median", ms(traffic.total.p50_ms), `95 % within ${ms(traffic.total.p95_ms)}; this gateway`),
  ]);
}

function charts({ hours, day, traffic, overview }) {
  const steps = hours ? hourly(hours.rows, overview.now) : day.steps;
  const of = (...names) => (step) => names.reduce((all, name) => all + (step.outcomes[name] ?? 0), 0);
  const all = steps.reduce((total, step) => total + of(...Object.keys(step.outcomes))(step), 0);
  return [
    chart({
      title: "Traffic", steps, clock: (step) => clock(step.at), said: count, whole: true,
      summary: `${plural(all, "call")} in the last day, ${hours ? "all gateways" : "this gateway"}`,
      kinds: [
        { name: "good", title: "answered", shape: "bars", of: of("answered", "synthetic") },
        { name: "bad", title: "denied, stopped or blocked by hooks", shape: "bars", of: of(...GUARDED) },
        { name: "warn", title: "other", shape: "bars", of: of("refused", "failed", "left", "interrupted") },
      ],
    }),
    chart({
      title: "Latency", steps: traffic.steps, clock: (step) => clock(step.at), said: (value) => (value ? ms(value).replace(/\.0+ /, " ") : "0"),
      summary: `median ${ms(traffic.total.p50_ms)}, 95 % within ${ms(traffic.total.p95_ms)} in the last hour, this gateway`,
      kinds: [
        { name: "main", title: "median", shape: "line", of: (step) => step.p50_ms },
        { name: "second", title: "95 % within", shape: "line", of: (step) => step.p95_ms },
      ],
    }),
  ];
}

/** Return the last hours as steps of a chart, from the rows of a report whose hours are in UTC. */
function hourly(rows, now) {
  const first = Math.floor(now / HOUR_MS) - HOURS + 1;
  const steps = Array.from({ length: HOURS }, (_, at) => ({ at: (first + at) * HOUR_MS, outcomes: {} }));
  for (const { hour, outcome, calls } of rows) {
    const step = steps[Date.parse(`${hour.replace(" ", "T")}Z`) / HOUR_MS - first];
    if (step) step.outcomes[outcome] = calls;
  }
  return steps;
}

function blocked({ latest }) {
  return section("Latest blocked", latest.calls.length === 0
    ? note("Hooks have blocked nothing yet.")
    : el("ul", { class: "list" }, latest.calls.map((call) => el("li", { class: "blocked" },
      el("time", { datetime: new Date(call.at).toISOString() }, when(call.at)), " ", badge(call.outcome), " ", callLink(call.id), " ",
      el("span", { class: "muted" }, [call.key || "no key", call.team && `team ${call.team}`, call.event || call.model].filter(Boolean).join(", ")),
      inWords(call).slice(0, 3).map((line) => el("p", { class: "why" }, line))))),
  el("p", {}, link(callsAddress("outcome:guarded"), "All of them"), ", or ", link("#/calls", "all calls, live")));
}

function inForce({ revision, files, pushed, hooks, calls_from, content, version }) {
  const events = new Set(hooks.filter((hook) => hook.state !== "off").map((hook) => hook.event));
  return section("Policy in force",
    facts([
      ["revision", link("#/policy", el("code", {}, revision))],
      ["hooks", link("#/hooks", `${plural(hooks.length, "hook")} on ${plural(events.size, "event")}`)],
      ["calls are listed from", calls_from === "audit" ? "the audit" : "memory, because the audit is off"],
      ["content stored", content],
      ["hookgate", version],
    ]),
    el("h3", {}, "Settings of hooks"),
    files.length || pushed
      ? el("ul", { class: "list" },
        pushed && el("li", {}, link("#/policy", `revision ${pushed.number} of the pushed policy`)),
        files.map((file) => el("li", {}, el("code", {}, file.path), " ", el("span", { class: "muted" }, file.layer))))
      : el("p", { class: "muted" }, "None. Calls are copied through."));
}
