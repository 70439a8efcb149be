// Tool calls for which hooks ask: who waits for a decision, and one request with its arguments.

import { get, post } from "./api.js";
import { el, fill } from "./dom.js";
import { count, when } from "./format.js";
import { Fresh } from "./fresh.js";
import { badge, callLink, facts, heading, link, note, sessionLink } from "./parts.js";
import { table } from "./table.js";

const AT_FIRST = 4000; // characters of arguments that are shown before the reader asks for all of them

const time = (text) => when(Date.parse(text));

const COLUMNS = [
  { title: "Request", brief: true, cell: (each) => link(`#/approvals/${each.id}`, el("code", {}, each.id.slice(0, 8))) },
  { title: "State", brief: true, cell: (each) => badge(each.state) },
  { title: "Tool", wide: true, cell: (each) => each.tool ?? "–" },
  { title: "Caller", cell: (each) => [each.key || "no key", each.team && `, team ${each.team}`] },
  { title: "Agent", cell: (each) => each.agent || "–" },
  { title: "Asked", cell: (each) => time(each.created) },
  { title: "Approved by", cell: (each) => each.approved_by.join(", ") || "–" },
];

export async function showApprovals() {
  const list = el("div");
  const draw = async () => {
    const { requests } = await get("approvals");
    const waiting = requests.filter((each) => each.state === "pending");
    const others = requests.filter((each) => each.state !== "pending");
    fill(list,
      el("h2", {}, `Waiting for a decision: ${count(waiting.length)}`),
      waiting.length ? table("Requests that wait", COLUMNS, waiting) : note("No call waits for a decision."),
      others.length > 0 && [el("h2", {}, "Earlier"), table("Requests that are over", COLUMNS, others)]);
  };
  await draw();
  const fresh = new Fresh(draw);
  return { title: "Approvals", node: [heading("Approvals"), list], live: (event) => event === "calls" && fresh.soon(), close: () => fresh.close() };
}

export async function showApproval({ parts: [id], announce }) {
  const shown = el("div");
  const draw = (request) => fill(shown, about(request), el("h2", {}, "Arguments"), argumentsOf(request.shown), request.decides && request.state === "pending" && form(request, decide));
  const decide = async (body) => {
    await post("approvals", { id: request.id, ...body });
    request = await get(`approvals/${id}`);
    draw(request);
    announce(`The request is ${request.state}`);
  };
  let request = await get(`approvals/${id}`);
  draw(request);
  return { title: "Approval", node: [heading(`Request ${request.id.slice(0, 8)}`), shown] };
}

function about(request) {
  return el("div", { class: "card" }, facts([
    ["state", badge(request.state)],
    ["tool", el("code", {}, request.tool)],
    ["key", request.key || "no key"],
    ["team", request.team],
    ["agent", request.agent],
    ["session", sessionLink(request.session, request.key)],
    ["call", callLink(request.call)],
    ["hooks that ask", request.hooks.join(", ")],
    ["their reason", request.why],
    ["asked", time(request.created)],
    ["expires", time(request.expires)],
    ["persons needed", request.persons > 1 ? count(request.persons) : null],
    ["decisions", request.decisions.length ? request.decisions.map((each) => el("div", {}, decision(each))) : null],
  ]));
}

function decision(each) {
  const told = each.approves ? `approved (${each.scope})` : "denied";
  return `${each.by} ${told}, ${time(each.at)}, by ${each.way}${each.reason ? `: ${each.reason}` : ""}`;
}

/** Return the arguments: all of them, or their beginning with a button that shows the rest. */
function argumentsOf(text) {
  const pre = el("pre", { class: "wrapped", tabindex: "0" }, text.slice(0, AT_FIRST));
  if (text.length <= AT_FIRST) return pre;
  const cut = note(el("strong", {}, `The first ${count(AT_FIRST)} of ${count(text.length)} characters. Read all before you decide. `));
  const button = el("button", { type: "button", on: { click: () => {
    fill(pre, text);
    cut.remove();
  } } }, "Show all");
  cut.append(button);
  return [cut, pre];
}

const SCOPES = [
  ["once", "this call, once"],
  ["session", "the same call in this session"],
  ["tools", "calls of tools with this key, for a time"],
];

function form(request, decide) {
  const scope = el("select", { id: "scope" }, SCOPES.map(([value, told]) => el("option", { value }, told)));
  const tools = el("input", { id: "tools", value: request.tool });
  const hours = el("input", { id: "hours", type: "number", min: "1", max: "720", value: "8" });
  const wider = el("p", { hidden: true }, el("label", { for: "tools" }, "Names, with wildcards "), tools, el("label", { for: "hours" }, " for hours "), hours);
  scope.addEventListener("change", () => { wider.hidden = scope.value !== "tools"; });
  const reason = el("input", { id: "reason", maxlength: "300" });
  const problem = el("p", { class: "error", role: "alert" });
  const send = (approve) => async () => {
    fill(problem);
    const wide = approve && scope.value === "tools" ? { tools: tools.value, seconds: Math.round(Number(hours.value) * 3600) } : {};
    await decide({ approve, reason: reason.value.trim(), scope: approve ? scope.value : "once", ...wide }).catch((failure) => fill(problem, failure.message));
  };
  return el("section", { class: "card" }, el("h2", {}, "Decide"),
    el("p", {}, el("label", { for: "scope" }, "Approve "), scope), wider,
    el("p", {}, el("label", { for: "reason" }, "Reason "), reason),
    el("p", {}, el("button", { type: "button", on: { click: send(true) } }, "Approve"), " ", el("button", { type: "button", on: { click: send(false) } }, "Deny")),
    problem);
}
