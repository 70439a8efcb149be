// Runs the hooks in force on the stored content of a call, and shows what they decide now.

import { post } from "./api.js";
import { el, fill } from "./dom.js";
import { badge, note, reasons, section } from "./parts.js";
import { table } from "./table.js";

const TRIED = [
  { title: "Event", brief: true, cell: (hook) => hook.event },
  { title: "Hook", brief: true, cell: (hook) => el("strong", {}, hook.hook) },
  { title: "Recorded", wide: true, cell: (hook) => hook.was ?? "did not run" },
  { title: "Now", wide: true, cell: (hook) => (hook.now === hook.was ? hook.now : el("strong", {}, hook.now ?? "does not run")) },
];

/** Return a form that runs the hooks. */
export function trial(call) {
  const hook = el("input", { id: "try-hook", name: "hook", placeholder: "all hooks", autocomplete: "off" });
  const button = el("button", {}, "Run hooks");
  const result = el("div", { class: "result", role: "status" });
  const run = async (event) => {
    event.preventDefault();
    button.disabled = true;
    const body = { id: call.receipt, ...(hook.value.trim() ? { hook: hook.value.trim() } : {}) };
    const found = await post("hooks/try", body).catch((failure) => failure);
    button.disabled = false;
    fill(result, ...(found instanceof Error ? [el("div", { class: "message error" }, el("p", {}, found.message))] : tried(found)));
  };
  return section("Try hooks", el("form", { class: "buttons", on: { submit: run } }, el("label", { for: "try-hook" }, "Only the hook"), hook, button), result,
    note("Runs the hooks in force on the stored content, without its session: limits count from zero. This is recorded with who did it."));
}

function tried({ outcome, hooks, reasons: told, masked }) {
  return [
    el("p", {}, "Recorded: ", badge(outcome.was), " Now: ", badge(outcome.now)),
    hooks.length ? table("What each hook decided, and decides now", TRIED, hooks) : note("No hook runs for this call."),
    reasons(told),
    masked ? note("Hooks saw more of this call than is stored, so decisions may differ for that reason.") : null,
  ].flat().filter(Boolean);
}
