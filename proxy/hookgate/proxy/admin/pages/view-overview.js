// The overview: numbers, charts, and the policy in force.

import { get } from "./api.js";
import { chart } from "./chart.js";
import { el, fill } from "./dom.js";
import { clock, count, ms, plural, when } from "./format.js";
import { columns } from "./calls.js";
import { badge, facts, heading, link, section } from "./parts.js";
import { table } from "./table.js";

const FRESH_MS = 5000;
const SPANS = { hour: "Last hour", day: "Last day" };
const LENGTHS = { hour: 3_600_000, day: 86_400_000 };
const LATEST = 8;

export async function showOverview({ query }) {
  const span = query.get("span") === "day" ? "day" : "hour";
  const asked = () => Promise.all([get("overview"), get("traffic", { span }), get("calls", { limit: LATEST })]);
  const tiles = el("div");
  const charts = el("div", { class: "charts" });
  const policy = el("div", { class: "columns" });
  const latest = el("div");
  const draw = ([overview, traffic, latestCalls]) => {
    fill(tiles, numbers(overview, traffic));
    fill(charts, drawn(traffic));
    fill(policy, inForce(overview), troubles(overview));
    if (!latest.contains(document.activeElement)) fill(latest, lately(latestCalls));
  };
  draw(await asked());
  let due = 0;
  const refresh = () => {
    due ||= setTimeout(async () => {
      due = 0;
      // An open table, or a chart under the pointer, must not be replaced.
      if (charts.querySelector("details[open]") || charts.matches(":hover")) return;
      await asked().then(draw, () => {}); // that the gateway is away is told at the top
    }, FRESH_MS);
  };
  return {
    title: "Overview",
    node: [heading("Overview", spans(span)), tiles, charts, latest, policy],
    live: refresh,
    close: () => clearTimeout(due),
  };
}

function spans(chosen) {
  return el("ul", { class: "choices", "aria-label": "Time" }, Object.entries(SPANS).map(([span, title]) =>
    el("li", {}, el("a", { href: span === "hour" ? "#/" : `#/?span=${span}`, "aria-current": chosen === span ? "true" : null }, title))));
}

function numbers(overview, { total, since, span }) {
  const denied = total.outcomes.denied + total.outcomes.stopped + total.outcomes.blocked;
  const running = overview.hooks.filter((hook) => !["off", "shadowed"].includes(hook.state));
  const degraded = running.filter((hook) => hook.state === "degraded").length;
  const share = total.calls ? `${((100 * denied) / total.calls).toFixed(1)} % of calls` : "no calls";
  return el("dl", { class: "tiles" },
    tile("Calls of this gateway", count(total.calls), Date.now() - since < LENGTHS[span] ? `since its start, ${when(since)}` : SPANS[span].toLowerCase()),
    tile("Denied or stopped", count(denied), share),
    tile("Latency, median", ms(total.p50_ms), `95 % within ${ms(total.p95_ms)}`),
    tile("Tokens", count(total.tokens), "in and out"),
    tile("Hooks running", count(running.length), degraded ? `${degraded} degraded` : "none degraded"),
    tile("Bypasses", count(total.bypasses), "tools that a shim did not report"));
}

function tile(name, value, beside) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", { class: "muted" }, beside)));
}

function drawn({ steps, total, span }) {
  const time = (step) => clock(step.at);
  const over = SPANS[span].toLowerCase();
  const of = (...names) => (step) => names.reduce((sum, name) => sum + step.outcomes[name], 0);
  const denied = total.outcomes.denied + total.outcomes.stopped + total.outcomes.blocked;
  return [
    chart({
      title: "Traffic", steps, clock: time, said: count, whole: true,
      summary: `${plural(total.calls, "call")} in the ${over}`,
      kinds: [
        { name: "good", title: "answered", shape: "bars", of: of("answered", "synthetic") },
        { name: "bad", title: "denied", shape: "bars", of: of("denied", "stopped", "blocked") },
        { name: "warn", title: "other", shape: "bars", of: of("refused", "failed", "left", "interrupted") },
      ],
    }),
    chart({
      title: "Denials", steps, clock: time, said: count, whole: true,
      summary: `${count(denied)} denied, stopped or blocked, ${count(total.outcomes.refused)} refused in the ${over}`,
      kinds: [
        { name: "bad", title: "denied, stopped or blocked by hooks", shape: "bars", of: of("denied", "stopped", "blocked") },
        { name: "warn", title: "refused by hookgate", shape: "bars", of: of("refused") },
      ],
    }),
    chart({
      title: "Latency", steps, clock: time, said: (value) => (value ? ms(value).replace(/\.0+ /, " ") : "0"),
      summary: `median ${ms(total.p50_ms)}, 95 % within ${ms(total.p95_ms)} in the ${over}`,
      kinds: [
        { name: "main", title: "median", shape: "line", of: (step) => step.p50_ms },
        { name: "second", title: "95 % within", shape: "line", of: (step) => step.p95_ms },
      ],
    }),
  ];
}

function lately({ calls, currency }) {
  return section("Latest calls",
    calls.length ? table("The latest calls", columns(currency), calls) : el("p", { class: "muted" }, "No calls yet."),
    el("p", {}, link("#/calls", "All calls, live")));
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

function troubles({ hooks, not_in_force: layers }) {
  const found = hooks.filter((hook) => ["degraded", "untrusted"].includes(hook.state));
  return section("Needs attention",
    ...(layers || []).map((layer) => el("p", {}, badge("refused"),
      ` Changed settings are not in use since ${layer.since} (${layer.layer}): ${layer.reason}`)),
    found.length === 0
    ? el("p", {}, badge("on"), runs(hooks))
    : el("ul", { class: "list" }, found.map((hook) => el("li", {}, badge(hook.state), " ",
      link("#/hooks", hook.name), ` on ${hook.event}: `, hook.last_error || hook.refusal || "failed"))));
}

function runs(hooks) {
  const [made, failed] = ["count", "failures"].map((name) => hooks.reduce((sum, hook) => sum + hook[name], 0));
  if (made === 0) return "No hook has run since this gateway started.";
  const earlier = failed ? ` Earlier ones failed: ${count(failed)} of ${count(made)} since this gateway started.` : "";
  return `The last run of every hook succeeded.${earlier}`;
}
