// The rules of alerts: what fires, whom they have told, and silences.

import { get, post } from "./api.js";
import { el } from "./dom.js";
import { count, when } from "./format.js";
import { badge, heading, note } from "./parts.js";
import { table } from "./table.js";

const SILENCE = 2 * 3600;

export async function showAlerts({ announce, person }) {
  const { rules } = await get("alerts");
  const columns = person.role === "admin" ? [...COLUMNS, { title: "Silence", cell: (each) => silencer(each, announce) }] : COLUMNS;
  return {
    title: "Alerts",
    node: [heading("Alerts"), rules.length === 0
      ? note("There are no rules. Write [[alerts.rules]] in hookgate.toml.")
      : table("Rules, and what fires", columns, rules)],
  };
}

const COLUMNS = [
  { title: "Rule", brief: true, cell: (each) => each.rule },
  { title: "State", brief: true, cell: (each) => [badge(each.state), each.silenced_until && el("p", { class: "muted" }, `silent until ${when(Date.parse(each.silenced_until))}`)] },
  { title: "Since", cell: (each) => (each.since ? when(Date.parse(each.since)) : "–") },
  { title: "Fires for", wide: true, cell: (each) => each.alerts.map((alert) => el("div", {}, fires(alert))) },
  { title: "Told", wide: true, cell: (each) => each.receivers.map((receiver) => el("div", {}, told(receiver))) },
];

function fires(alert) {
  const group = Object.entries(alert.group).map(([field, name]) => `${field} ${name || "–"}`).join(", ");
  const percent = alert.percent === 100 ? "" : ` (${alert.percent} %)`;
  return `${group || "all calls"}: ${count(alert.value)}${percent}`;
}

function told(receiver) {
  return [receiver.name, receiver.result && `: ${receiver.result}`, receiver.error && `, ${receiver.error}`];
}

function silencer(rule, announce) {
  const silent = Boolean(rule.silenced_until);
  const button = el("button", { type: "button" }, silent ? `Tell of ${rule.rule} again` : `Silence ${rule.rule} for 2 hours`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await post("alerts/silence", { rule: rule.rule, seconds: silent ? 0 : SILENCE });
      announce(silent ? `${rule.rule} is not silent any more` : `${rule.rule} is silent for 2 hours`);
      button.replaceWith("saved");
    } catch (error) {
      announce(error.message);
      button.disabled = false;
    }
  });
  return button;
}
