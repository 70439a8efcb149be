// One call: its receipt, what hooks did, and its content if the audit stores it.

import { get, post } from "./api.js";
import { content } from "./content.js";
import { el, fill, svg } from "./dom.js";
import { bytes, count, ms, when } from "./format.js";
import { badge, facts, heading, link, note, reasons, section, sessionLink } from "./parts.js";
import { table } from "./table.js";
import { trial } from "./trial.js";

const HOOKS = [
  { title: "Event", brief: true, cell: (hook) => hook.event },
  { title: "Hook", brief: true, cell: (hook) => el("strong", {}, hook.hook) },
  { title: "Kind", cell: (hook) => hook.type },
  { title: "Mode", cell: (hook) => hook.mode },
  { title: "Said", wide: true, cell: (hook) => counted(hook.decisions) },
  { title: "Edited", cell: (hook) => hook.edits.join(", ") || "–" },
  { title: "Found", cell: (hook) => counted(hook.findings) || "–" },
  { title: "Runs", numeric: true, cell: (hook) => count(hook.runs) },
  { title: "Failed", numeric: true, cell: (hook) => (hook.failures ? counted(hook.causes || { error: hook.failures }) : "0") },
  { title: "Shown", numeric: true, cell: (hook) => bytes(hook.bytes) },
  { title: "Time", numeric: true, cell: (hook) => ms(hook.ms) },
];

const FOUND = [
  { title: "Found", brief: true, cell: (found) => el("strong", {}, found.kind) },
  { title: "In", wide: true, cell: (found) => el("code", {}, found.place || "the top") },
  { title: "By", cell: (found) => found.source },
  { title: "Hook", cell: (found) => `${found.hook}, ${found.event}` },
  { title: "Then", cell: (found) => (found.mode === "observe" ? "stayed: the hook observes" : "replaced or blocked") },
  { title: "Hash", cell: (found) => el("code", {}, found.hash ?? "–") },
];

const counted = (words) => Object.entries(words ?? {}).map(([word, times]) => (times > 1 ? `${word} ${count(times)}×` : word)).join(", ");

const pairs = (fields) => Object.entries(fields).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");

export async function showCall({ parts: [id], person }) {
  const told = await get(`calls/${id}`); // the first digits of an ID suffice
  const call = told.facts;
  const name = `Call ${call.receipt.slice(0, 8)}`;
  return {
    title: name,
    node: [
      heading(name, badge(call.outcome)),
      el("div", { class: "columns" }, section("Receipt", receipt(call), reasons(call.reasons), blocked(call), people(call)), section("Time", timeline(call.timings))),
      ...acts(call, person),
      section("Hooks", call.hooks?.length ? table("What each hook did", HOOKS, call.hooks) : note("No hook ran for this call.")),
      ...findings(call.hooks ?? []),
      ...(told.content ? [trial(call)] : []),
      told.content ? content(told.content, call.upstream_requests) : section("Content", note(person.role === "viewer"
        ? "Viewers do not see the content of calls, nor the reasons of denials."
        : "The content of this call is not stored. Set audit.content to redacted or full to store it; it is off by default.")),
    ],
  };
}

/** Return what an admin can do about the call, each with a question before it. */
function acts(call, person) {
  if (person.role !== "admin") return [];
  const { session, issued_key: key, hooks = [] } = call;
  const names = [...new Set(hooks.map(({ hook }) => hook))];
  const found = new Map(hooks.flatMap(({ hook, found: listed = [] }) => listed.filter(({ hash }) => hash).map(({ hash, kind }) => [`${hook} ${hash}`, { hook, hash, kind }])));
  const acts = [
    session?.id && ["Stop the session", "sessions/stop", { session: session.id, key: session.key }, "Its calls get a reason in place of an answer, until the session starts again."],
    key && [`Revoke the key ${key}`, "keys/revoke", { id: key }, "All gateways refuse the key within seconds. This cannot be undone."],
    ...names.flatMap((hook) => [["observe", "Only observe"], ["off", "Switch off"]].map(([state, title]) => [`${title}: ${hook}`, "policy/hook", { hook, state }, "A revision of the pushed policy with this change binds all gateways."])),
    ...[...found.values()].map(({ hook, hash, kind }) => [`Let ${kind} stay: ${hash.slice(-6)}`, "policy/allow", { hook, hash }, `${hook} lets ${hash} stay from then on. A revision of the pushed policy with this change binds all gateways.`]),
  ].filter(Boolean);
  if (acts.length === 0) return [];
  const result = el("div", { class: "result", role: "status" });
  const act = async (path, body) => {
    const told = await post(path, body).then(({ messages }) => messages, (failure) => failure);
    fill(result, el("div", { class: told instanceof Error ? "message error" : "message" }, el("p", {}, told instanceof Error ? told.message : told.join(" "))));
  };
  return [section("Act", el("div", { class: "buttons" }, acts.map(([title, path, body, text]) =>
    el("button", { type: "button", on: { click: () => asked(title, text, () => act(path, body)) } }, title))), result,
  note("Each of these is recorded with who did it."))];
}

/** Ask before something is done. `go` is called if the user agrees. */
function asked(title, text, go) {
  const dialog = el("dialog", { class: "card", "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
    el("h2", { id: "ask-title" }, `${title}?`),
    el("p", { id: "ask-text" }, text),
    el("form", { method: "dialog", class: "buttons" }, el("button", { value: "no" }, "Cancel"), el("button", { value: "yes", class: "danger" }, "Yes")));
  const leave = () => dialog.close("no"); // the question is about the view that was left
  addEventListener("hashchange", leave);
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", leave);
    dialog.remove();
    if (dialog.returnValue === "yes") go();
  });
  document.body.append(dialog);
  dialog.showModal();
}

/** Return what was found, where, and the hashes with which `hookgate redact allow` lets it stay. */
function findings(hooks) {
  const found = hooks.flatMap(({ hook, event, mode, found: listed = [] }) => listed.map((each) => ({ ...each, hook, event, mode })));
  if (found.length === 0) return [];
  const total = hooks.filter((hook) => hook.found).flatMap((hook) => Object.values(hook.findings)).reduce((sum, times) => sum + times, 0);
  const more = total > found.length ? note(`${count(total - found.length)} more are not listed.`) : null;
  return [section("Findings", table("What was found in the call, and where", FOUND, found), more,
    note("If a finding is no secret, hookgate redact allow HASH lets it stay from then on."))];
}

function receipt(call) {
  const { session, usage, records = {} } = call;
  return facts([
    ["receipt", el("code", {}, call.receipt)],
    ["request id", el("code", {}, call.request_id ?? "–")],
    ["began", call.began && when(Date.parse(call.began))],
    ["route", call.route && `${call.route.kind || "none"} ${call.route.path}`],
    ["event", call.event],
    ["model", call.model],
    ["answered by", call.answered_by],
    ["session", session?.id && sessionLink(session.id, session.key)],
    ["key", session?.key],
    ["team", session?.team],
    ["client", session?.client],
    ["status", call.status ?? (call.outcome === "interrupted" ? "none: the gateway stopped" : "none: the client had left")],
    ["policy revision", call.revision && el("code", {}, call.revision)],
    ["bytes in, out", `${bytes(call.bytes?.request)}, ${bytes(call.bytes?.answer)}`],
    ["requests upstream", call.upstream_requests === undefined ? "" : count(call.upstream_requests)],
    ["tokens in, out, cached", usage && [usage.input_tokens, usage.output_tokens, usage.cached_tokens].map(count).join(", ")],
    ["cost", usage?.cost],
    ["bypasses", call.bypasses ? count(call.bypasses) : ""],
    ["degraded hooks", call.degraded?.join(", ")],
    ["not applied", call.not_applied?.join(", ")],
    ["upload", call.upload && pairs(call.upload)],
    ["audio and pictures, in bytes", call.live && pairs(call.live)],
    ...Object.entries(records).map(([name, record]) => [`audit record, ${name}`, el("code", {}, `${record.writer}/${record.seq} ${record.hash.slice(0, 16)}…`)]),
  ]);
}

/** Return what hooks kept from the agent: tool calls, and answers that the model had to replace. */
function blocked({ blocked: found = [], blocked_count: total = found.length }) {
  if (found.length === 0) return null;
  const lines = found.map((each) => el("li", {}, el("strong", {}, each.tool ? `tool ${each.tool}` : "answer"),
    `: ${each.reason || "no reason was given"}`,
    el("span", { class: "muted" }, ` ${each.event}, by ${each.hooks.join(", ") || "the gateway"}`)));
  const more = total > found.length ? note(`${count(total - found.length)} more are not listed.`) : null;
  return [el("h3", {}, "Blocked"), el("ul", {}, lines), more];
}

/** Return what people have decided about tool calls, or that they were asked. */
function people({ approvals = [] }) {
  if (approvals.length === 0) return null;
  const lines = approvals.map(({ request, result, by = [], scope }) => el("li", {}, el("strong", {}, result),
    by.length ? ` by ${by.join(", ")}` : "", scope ? ` for: ${scope}` : "",
    request ? [", request ", link(`#/approvals/${request}`, el("code", {}, request.slice(0, 8)))] : ""));
  return [el("h3", {}, "People were asked"), el("ul", {}, lines)];
}

const WIDTH = 600;

/** Return the parts of the call's time, as a bar and as text. */
function timeline(timings) {
  if (!timings) return note("The call is in progress.");
  const { before_ms: before, upstream_ms: upstream, first_byte_ms: first, total_ms: total } = timings;
  const sent = before ?? total;
  const asked = Math.min(upstream ?? 0, total - sent);
  const spans = [
    ["main", "before the request went upstream", sent],
    ["second", "until the upstream answered", asked],
    ["good", "hooks on the answer, and sending it", Math.max(0, total - sent - asked)],
  ].filter(([, , length]) => length > 0);
  let left = 0;
  const bars = spans.map(([name, , length]) => {
    const width = total ? (WIDTH * length) / total : 0;
    const bar = svg("rect", { x: left, y: 0, width: Math.max(1, width), height: 22, class: `area ${name}` });
    left += width;
    return bar;
  });
  return [
    svg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} 22`, preserveAspectRatio: "none", role: "img", "aria-label": `${ms(total)} in total` }, bars),
    el("ul", { class: "legend tall" }, spans.map(([name, title, length]) => el("li", {},
      svg("svg", { class: "key", width: 18, height: 10, "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 16, height: 8, class: `area ${name}` })),
      `${title}: `, el("strong", {}, ms(length))))),
    facts([["first byte to the client after", ms(first)], ["total", ms(total)]]),
  ];
}
