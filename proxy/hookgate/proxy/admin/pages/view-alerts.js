// The rules of alerts: what fires, whom they have told, and silences.

import { get, post } from "./api.js";
import { el, fill } from "./dom.js";
import { count, when } from "./format.js";
import { badge, heading, note } from "./parts.js";
import { table } from "./table.js";

const SILENCE = 2 * 3600;

export async function showAlerts({ announce, person }) {
  const list = el("div");
  const draw = ({ rules }) => fill(list, rules.length ? table("Rules, and what fires", columns, rules) : note("There are no rules. Write [[alerts.rules]] in hookgate.toml."));
  const silence = async (rule, seconds) => {
    try {
      draw(await post("alerts/silence", { rule, seconds }));
      announce(seconds ? `${rule} is silent for 2 hours` : `${rule} is not silent any more`);
    } catch (failure) {
      announce(failure.message);
    }
    [...list.querySelectorAll("button")].find((each) => each.dataset.rule === rule)?.focus();
  };
  const columns = person.role === "admin" ? [...COLUMNS, { title: "Silence", cell: (rule) => silencer(rule, silence) }] : COLUMNS;
  draw(await get("alerts"));
  return { title: "Alerts", node: [heading("Alerts"), list] };
}

const COLUMNS = [
  { title: "Rule", brief: true, cell: (rule) => rule.rule },
  { title: "State", brief: true, cell: (rule) => [badge(rule.state), rule.silenced_until && el("p", { class: "muted" }, `silent until ${time(rule.silenced_until)}`)] },
  { title: "Since", cell: (rule) => (rule.since ? time(rule.since) : "–") },
  { title: "Fires for", wide: true, cell: (rule) => rule.alerts.map((alert) => el("div", {}, fires(alert))) },
  { title: "Receivers", wide: true, cell: (rule) => rule.receivers.map((receiver) => el("div", {}, told(receiver))) },
];

const time = (text) => when(Date.parse(text));

function fires(alert) {
  const group = Object.entries(alert.group).map(([field, name]) => name ? `${field} ${name}` : `no ${field}`).join(", ");
  return `${group || "all calls"}: ${count(alert.value)}${alert.percent === 100 ? "" : ` (at ${alert.percent} %)`}`;
}

function told(receiver) {
  return [receiver.name, receiver.result && `: ${receiver.result} ${time(receiver.last)}`, receiver.error && `, ${receiver.error}`].filter(Boolean).join("");
}

function silencer(rule, silence) {
  const silent = Boolean(rule.silenced_until);
  const button = el("button", { type: "button", on: { click: () => silence(rule.rule, silent ? 0 : SILENCE) } },
    silent ? `Tell of ${rule.rule} again` : `Silence ${rule.rule} for 2 hours`);
  button.dataset.rule = rule.rule;
  return button;
}
