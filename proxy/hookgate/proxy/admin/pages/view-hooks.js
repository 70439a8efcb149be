// All hooks with their state, and a switch for each.

import { get, post } from "./api.js";
import { el, fill } from "./dom.js";
import { count, ms } from "./format.js";
import { badge, heading, link, note } from "./parts.js";
import { table } from "./table.js";

const FRESH_MS = 1000;

export async function showHooks({ person }) {
  const list = el("div");
  const result = el("div", { class: "result", role: "status" });
  const draw = (told) => fill(list, told.hooks.length ? listed(told.hooks, ask, person) : note("No hooks are configured. Calls are copied through."));
  const ask = (hook) => confirmed(hook, async () => {
    try {
      const told = await post("hooks/switch", { name: hook.name, on: hook.state === "off" });
      draw(told);
      fill(result, el("div", { class: "message" }, told.messages.map((each) => el("p", {}, each)), el("p", {}, `Revision ${told.revision} is in force.`)));
    } catch (failure) {
      fill(result, el("div", { class: "message error" }, el("p", {}, failure.message)));
    }
    [...list.querySelectorAll("[role=switch]")].find((each) => each.dataset.hook === hook.name && each.dataset.event === hook.event)?.focus();
  });
  draw(await get("hooks"));
  let due = 0;
  return {
    title: "Hooks",
    node: [heading("Hooks", link("#/hooks/runs", "What hooks did, at all gateways")), result, list],
    live: (event) => {
      if (event !== "hooks" || due) return;
      due = setTimeout(async () => {
        due = 0;
        // A switch that is in use must not be replaced.
        if (!list.contains(document.activeElement)) await get("hooks").then(draw, () => {});
      }, FRESH_MS);
    },
    close: () => clearTimeout(due),
  };
}

function listed(hooks, ask, person) {
  return table("Hooks by event, in the order in which they run", [
    { title: "Event", brief: true, cell: (hook) => hook.event },
    { title: "Hook", brief: true, wide: true, cell: (hook) => [el("strong", {}, hook.name), hook.description && el("p", { class: "muted" }, hook.description)] },
    { title: "Source", wide: true, cell: (hook) => [el("span", {}, hook.layer), el("p", { class: "muted path" }, hook.file)] },
    { title: "Kind", cell: (hook) => hook.kind },
    { title: "State", brief: true, cell: (hook) => state(hook) },
    { title: "Last run", wide: true, cell: (hook) => lastRun(hook, person) },
    { title: "Here since start: runs, failed, denied", numeric: true, cell: (hook) => `${count(hook.count)} / ${count(hook.failures)} / ${count(hook.denials)}` },
    { title: "Last time", numeric: true, cell: (hook) => ms(hook.last_ms) },
    { title: "Switch", cell: (hook) => toggle(hook, ask, person) },
  ], hooks);
}

function state(hook) {
  return [badge(hook.state), hook.state === "degraded" && hook.mode === "observe" && badge("observe"),
    hook.fails_open !== "never" && el("p", { class: "muted" }, hook.fails_open === "always" ? "fails open" : "fails open on exit codes"),
    hook.refusal && el("p", { class: "muted" }, hook.refusal)];
}

function lastRun(hook, person) {
  if (hook.last_status === "never") return el("span", { class: "muted" }, "never ran");
  if (hook.last_status === "failed") return [person.role === "viewer" ? "failed" : `failed: ${hook.last_error}`, el("p", { class: "muted" }, `on_error is ${hook.on_error}`)];
  const said = hook.last_output || "ok";
  const returned = hook.mode === "observe" ? `would have returned: ${said}` : said;
  return hook.last_warning ? [returned, el("p", { class: "muted" }, `warning: the hook ${hook.last_warning}`)] : returned;
}

function toggle(hook, ask, person) {
  if (!hook.switchable) return el("span", { class: "muted" }, "fixed by policy");
  if (hook.state === "shadowed") return el("span", { class: "muted" }, "another layer has this hook");
  if (person.role !== "admin") return el("span", { class: "muted" }, `${hook.state === "off" ? "off" : "on"}, switched by admins`);
  return el("button", {
    type: "button", role: "switch", class: "switch", "aria-checked": String(hook.state !== "off"),
    "aria-label": `${hook.name} on ${hook.event}`, data: { hook: hook.name, event: hook.event }, on: { click: () => ask(hook) },
  }, hook.state === "off" ? "off" : "on");
}

/** Ask before a hook is switched. `go` is called if the user agrees. */
function confirmed(hook, go) {
  const on = hook.state === "off";
  const dialog = el("dialog", { class: "card", "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
    el("h2", { id: "ask-title" }, `${on ? "Enable" : "Disable"} ${hook.name}?`),
    el("p", { id: "ask-text" }, on
      ? "New calls run this hook again. All hooks of this name are switched on, on all events."
      : "New calls do not run this hook. All hooks of this name are switched off, on all events. Calls in progress still run it."),
    el("form", { method: "dialog", class: "buttons" },
      el("button", { value: "no" }, "Cancel"),
      el("button", { value: "yes", class: on ? "primary" : "danger" }, on ? "Enable" : "Disable")));
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
