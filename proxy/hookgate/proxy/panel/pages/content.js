// What was said in a call, before and after its hooks, and what each of them changed.

import { difference, plainText } from "./diffview.js";
import { el, fill } from "./dom.js";
import { note, section } from "./parts.js";
import { fieldText, written } from "./readable.js";

const NARROW = "(max-width: 48rem)";

/** The parts of a view for `content` of the API. */
export function content(told) {
  const choice = { as: "text", beside: !matchMedia(NARROW).matches };
  const shown = el("div", { class: "content" });
  const draw = () => fill(shown, bodies(told, choice), changes(told.changes, choice));
  draw();
  return section("Content",
    el("div", { class: "switches" },
      choices("Bodies", "as", { text: "Text", json: "JSON" }, choice, draw),
      choices("Differences", "beside", { true: "Side by side", false: "One below the other" }, choice, draw)),
    shown);
}

function choices(title, name, values, choice, draw) {
  return el("fieldset", { class: "segments" }, el("legend", {}, title), Object.entries(values).map(([value, told]) => {
    const id = `${name}-${value}`;
    const input = el("input", { type: "radio", name, id, value, checked: String(choice[name]) === value });
    input.addEventListener("change", () => {
      choice[name] = name === "beside" ? value === "true" : value;
      draw();
    });
    return el("span", { class: "segment" }, input, el("label", { for: id }, told));
  }));
}

function bodies({ request, sent, answer, given }, choice) {
  return [
    body("Request", request, sent, ["As the client sent it, and as it went upstream", "It went upstream as it came."], choice),
    body("Answer", answer, given, ["As the upstream gave it, and as the client got it", "The client got it as it came."], choice),
  ];
}

function body(title, before, after, [changed, same], choice) {
  if (before === null && after === null) return [el("h3", {}, title), note("Nothing of it is kept.")];
  const old = written(before, choice.as);
  // An answer that was only given by hooks has nothing before it.
  const now = after === null ? old : written(after, choice.as);
  if (old === now) return [el("h3", {}, title), note(after === null ? same : `${same} What differs is not shown as text: see JSON.`), plainText(old)];
  return [el("h3", {}, title), note(`${changed}.`), difference(old, now, choice.beside)];
}

function changes(found, choice) {
  if (!found?.length) return [el("h3", {}, "Changes by hook"), note("No hook changed anything, or it is not kept.")];
  return [el("h3", {}, "Changes by hook"), found.map((change, at) => el("details", { class: "change", open: found.length === 1 },
    el("summary", {}, `${at + 1}. ${change.hook} on ${change.event}`, change.mode === "observe" && " (observed only: nothing was changed)"),
    change.before === null
      ? [note("It saw a piece of a stream; what stood there before is not kept. It wrote:"), plainText(fieldText(change.after))]
      : difference(fieldText(change.before), fieldText(change.after), choice.beside)))];
}
