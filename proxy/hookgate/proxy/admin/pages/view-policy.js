// The policy in force, and the gateway's settings with their sources.

import { get } from "./api.js";
import { el } from "./dom.js";
import { plural, when } from "./format.js";
import { facts, heading, link, note, section } from "./parts.js";
import { tried } from "./search.js";
import { table } from "./table.js";

export async function showPolicy() {
  const [{ policy, gateway }, [recorded]] = await Promise.all([get("policy"), tried(() => get("changes"))]);
  return {
    title: "Policy",
    node: [
      heading("Policy", link("#/policy/compare", "Compare policies, on recorded calls")),
      section("In force", facts([
        ["revision", el("code", {}, policy.revision)],
        ...(policy.not_in_force || []).map((layer) => [`${layer.layer}, not in force since ${layer.since}`, layer.reason]),
        ...pushed(policy.pushed),
        ["time for an event's hooks", `${policy.limits.deadline_seconds} s`],
        ["hooks at once", policy.limits.concurrency],
      ]), files(policy.files)),
      section("Hooks' settings", policy.events.length
        ? policy.events.map(event)
        : note("No hooks are configured. Calls are copied through.")),
      section("The gateway's settings", settings(gateway)),
      section("Changes", recorded ? changes(recorded.changes) : note("Changes are on record in the audit, which is off.")),
    ],
  };
}

function pushed(found) {
  if (!found) return [];
  const trouble = found.state === "behind" ? "cannot be used here" : "may not be the newest one";
  return [
    ["pushed policy", `revision ${found.number}, by ${found.pushed_by}, ${found.pushed}`],
    ["its SHA-256", el("code", {}, found.sha256)],
    ["its message", found.message],
    ["newest revision", found.state === "current" ? null : `${found.newest}, which ${trouble}`],
    ["problem", found.problem],
  ];
}

const CHANGES = [
  { title: "Time", brief: true, cell: (each) => when(each.at) },
  { title: "Change", brief: true, cell: (each) => el("strong", {}, each.change || "settings in use") },
  { title: "By", cell: (each) => each.by || "a gateway" },
  { title: "What", wide: true, cell: (each) => Object.entries(each).filter(([name, value]) => !ABOUT.has(name) && value !== null && value !== "" && value?.length !== 0)
    .map(([name, value]) => `${name}: ${shown(value)}`).join(", ") },
];
const ABOUT = new Set(["id", "at", "event", "change", "by"]);

/** Return who changed hooks, policy and keys, and when other settings took effect. */
function changes(found) {
  return found.length ? table("The latest changes to policy and keys", CHANGES, found) : note("No changes are on record.");
}

const SETTINGS = [
  { title: "Setting", brief: true, cell: (each) => el("code", {}, each.name) },
  { title: "Value", wide: true, cell: (each) => el("code", {}, shown(each.value)) },
  { title: "Set by", wide: true, cell: (each) => (each.source === "default" ? el("span", { class: "muted" }, "default") : each.source) },
];

function settings(all) {
  const given = all.filter((each) => each.source !== "default");
  const rest = all.filter((each) => each.source === "default");
  return [
    given.length ? table("Settings that were set, and where", SETTINGS, given) : note("All settings have their defaults."),
    el("details", { class: "more-settings" }, el("summary", {}, `${plural(rest.length, "setting")} at the default`),
      table("Settings at their defaults", SETTINGS, rest)),
  ];
}

function shown(value) {
  if (value === null) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function files(found) {
  if (found.length === 0) return note("No settings files are read.");
  return el("ul", { class: "list" }, found.map((file) => el("li", {}, el("code", {}, file.path), " ",
    el("span", { class: "muted" }, file.layer, !file.there && ", missing"))));
}

function event({ event: name, groups }) {
  return [el("h3", {}, name), groups.map((group) => el("div", { class: "group" },
    el("p", { class: "muted" }, [group.matcher && `for ${group.matcher}`, group.sequential ? "one after another" : "in parallel"].filter(Boolean).join(", ")),
    group.hooks.map((hook) => el("details", {},
      el("summary", {}, el("strong", {}, hook.name), " ", el("span", { class: "muted" }, `${hook.layer}: ${hook.source}`)),
      el("pre", { tabindex: "0" }, JSON.stringify(hook.settings, null, 2))))))];
}
