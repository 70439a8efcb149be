// The content of a call before and after its hooks, and the change that each hook made.

import { difference, plainText } from "./diffview.js";
import { el, fill } from "./dom.js";
import { note, section } from "./parts.js";
import { fieldText, written } from "./readable.js";

const NARROW = "(max-width: 48rem)";

/** Return the parts of a view for `content` of the API. `asked` is the number of requests upstream, undefined for a call in progress. */
export function content(told, asked) {
  const choice = { as: "text", beside: !matchMedia(NARROW).matches };
  const shown = el("div", { class: "content" });
  const draw = () => fill(shown, bodies(told, asked, choice), changes(told.changes, choice));
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

const OTHER_FIELDS = "The text is unchanged; other fields differ: see JSON.";

function bodies({ request, sent, answer, given, blocked, masked }, asked, choice) {
  return [
    part("Request", request, sent, masked ? MASKED : asked === 0 ? NOT_SENT : asked ? SENT : BEGUN, choice),
    part("Answer", answer, given, masked ? MASKED : answer === null ? OWN : ANSWERED, choice),
    blocked?.length ? [el("h3", {}, "Blocked tool calls"), plainText(written(blocked, "json"))] : null,
  ];
}

// The notes on two bodies that differ, and on one that did not change.
const NOT_SENT = { differs: "As the client sent it, and as hooks changed it. It did not go upstream.", same: "It did not go upstream." };
const SENT = { differs: "As the client sent it, and as it went upstream.", same: "It went upstream unchanged." };
const BEGUN = { differs: "As the client sent it, and as hooks changed it.", same: "As the client sent it." };
const ANSWERED = { differs: "As the upstream sent it, and as the client received it.", same: "The client received it unchanged." };
const MASKED = { differs: "Before and after the hooks, with secrets and personal data masked.", same: "Stored after redaction: what hooks and the upstream saw may differ." };
const OWN = { differs: "As the client received it; the upstream sent no answer.", same: "" };

function part(title, before, after, told, choice) {
  const head = el("h3", {}, title);
  if (before === null && after === null) return [head, note("Nothing of it is stored.")];
  if (after === null) return [head, note(told.same), plainText(written(before, choice.as))];
  const now = written(after, choice.as);
  if (before === null) return [head, note(told.differs), plainText(now)];
  const old = written(before, choice.as);
  if (old !== now) return [head, note(told.differs), difference(old, now, choice.beside)];
  return [head, note(told === NOT_SENT ? `${NOT_SENT.same} ${OTHER_FIELDS}` : OTHER_FIELDS), plainText(old)];
}

function changes(found, choice) {
  if (!found?.length) return [el("h3", {}, "Changes by hook"), note("No hook changed anything, or the changes are not stored.")];
  return [el("h3", {}, "Changes by hook"), found.map((change, at) => el("details", { class: "change", open: found.length === 1 },
    el("summary", {}, `${at + 1}. ${change.hook} on ${change.event}`, change.mode === "observe" && " (observed only: not applied)"),
    change.before === null
      ? [note("The hook saw a piece of a stream; the original text is not stored. It wrote:"), plainText(fieldText(change.after))]
      : difference(fieldText(change.before), fieldText(change.after), choice.beside)))];
}
