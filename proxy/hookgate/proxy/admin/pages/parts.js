// Elements that several views share.

import { el, fill } from "./dom.js";
import { count } from "./format.js";

const SIGNS = {
  answered: "✓", blocked: "◩", denied: "✕", stopped: "■", synthetic: "◆", refused: "⊘", failed: "!", left: "→", interrupted: "…",
  ok: "✓", approved: "✓", used: "✓", expired: "○", firing: "!", on: "✓", off: "○", untrusted: "?", degraded: "!", observe: "◐", shadowed: "○",
};
const TONES = {
  answered: "good", ok: "good", approved: "good", used: "good", on: "good", firing: "bad", blocked: "bad", denied: "bad", stopped: "bad", degraded: "bad", failed: "bad", interrupted: "warn",
  refused: "warn", untrusted: "warn", synthetic: "info", observe: "info",
};

/** Return a badge with a word, or another text for it, and a sign, because color alone is not enough. */
export function badge(word, text = "") {
  const told = word || "in progress";
  return el("span", { class: `badge ${TONES[told] ?? "plain"}` },
    el("span", { "aria-hidden": "true" }, SIGNS[told] ?? "…", " "), text || told);
}

/** Return the decisions of a call's hooks: those other than a plain allow by name, the others as a count. */
export function decisions(hooks) {
  const told = hooks.filter((hook) => spoken(hook));
  const silent = hooks.length - told.length;
  const chips = told.map((hook) => chip(hook, "li"));
  if (silent > 0) chips.push(el("li", { class: "chip" }, told.length ? `${silent} more: allow` : `${silent} allow`));
  return chips.length ? el("ul", { class: "chips" }, chips) : el("span", { class: "muted" }, "no hook");
}

/** Return one hook with its decision. */
export function chip(hook, name) {
  const said = spoken(hook);
  return el(name, { class: `chip ${said ? tone(hook) : ""}` }, `${hook.hook}: ${said || "allow"}`);
}

/** Describe the decision of one hook. The result is empty for a plain allow. */
function spoken(hook) {
  const words = Object.keys(hook.decisions).filter((word) => word !== "allow");
  const observes = hook.mode === "observe";
  if (hook.edits.length) words.push(`${observes ? "edit" : "edits"} ${hook.edits.join(", ")}`);
  const told = words.join(", ");
  return [told && observes ? `would ${told}` : told, failed(hook)].filter(Boolean).join(", ");
}

/** Describe how often a hook failed, and why; empty if it did not. */
function failed(hook) {
  const causes = Object.keys(hook.causes || {}).join(", ");
  if (!hook.failures) return "";
  return `failed${hook.failures > 1 ? ` ${count(hook.failures)}×` : ""}${causes ? ` (${causes})` : ""}`;
}

function tone(hook) {
  if (hook.mode === "observe") return "info";
  if (hook.failures || hook.decisions.deny || hook.decisions.stop) return "bad";
  return hook.edits.length ? "warn" : "info";
}

/** Return a list of names and values, without the pairs that have no value. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** Return a button that loads more with `load`, is disabled meanwhile, and shows errors. */
export function more(title, load) {
  const problem = el("span", { class: "error", role: "alert" });
  const button = el("button", { type: "button" }, title);
  button.addEventListener("click", async () => {
    button.disabled = true;
    fill(problem);
    await load(button).catch((failure) => fill(problem, ` ${failure.message}`));
    button.disabled = false;
  });
  return [el("p", { class: "more" }, button, problem), button];
}

/** Return a section of a view with its own heading. */
export function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), children);
}

/** Return figures side by side, made with `tile`. */
export const tiles = (all) => el("dl", { class: "tiles" }, all);

/** Return a figure with its name, and what it means. */
export function tile(name, value, beside) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), beside && el("span", { class: "muted" }, beside)));
}

/** Return the title of a view, which gets the focus when the view is shown. */
export function heading(title, ...beside) {
  return el("div", { class: "heading" }, el("h1", { tabindex: "-1" }, title), beside);
}

export const note = (...told) => el("p", { class: "note" }, told);

export const link = (address, ...told) => el("a", { href: address }, told);

export const callLink = (id) => link(`#/calls/${id}`, el("code", {}, id.slice(0, 8)));

/** Return the address of a session. Each key has its own sessions, even with the same name. */
export const sessionAddress = (id, key) => `#/sessions/${encodeURIComponent(id)}?${new URLSearchParams({ key })}`;

export const sessionLink = (id, key) => (id ? link(sessionAddress(id, key), el("code", {}, short(id))) : "–");

const short = (id) => (id.length > 14 ? `${id.slice(0, 12)}…` : id);

/** Return the reasons that hooks gave, by event, or null. */
export function reasons(found) {
  const told = Object.entries(found ?? {}).filter(([, text]) => text);
  if (told.length === 0) return null;
  return [el("h3", {}, "Reasons"), facts(told)];
}
