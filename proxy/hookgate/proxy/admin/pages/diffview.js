// Two texts side by side, or one below the other, with differences marked by signs and color.

import { compare } from "./diff.js";
import { el } from "./dom.js";
import { plural } from "./format.js";

const AROUND = 3;

/** Return the difference of two texts, in two columns if `beside` is set. */
export function difference(before, after, beside) {
  const rows = compare(before, after);
  const shown = beside ? inColumns : inLines;
  return el("div", { class: `diff ${beside ? "beside" : "below"}`, role: "group", "aria-label": "Difference", tabindex: "0" },
    beside && el("div", { class: "diff-row diff-head" }, el("div", {}, "Before"), el("div", {}, "After")),
    stretches(rows).map((stretch) => (stretch.folded ? folded(stretch.rows, shown) : stretch.rows.map(shown))));
}

/** Return a text without differences. */
export const plainText = (text) =>
  el("div", { class: "diff below", role: "group", "aria-label": "Text", tabindex: "0" },
    text.split("\n").map((line) => el("div", { class: "line" }, sign(" "), el("span", {}, line || " "))));

function inColumns({ left, right }) {
  return el("div", { class: "diff-row" }, line(left, "removed"), line(right, "added"));
}

function inLines({ left, right }) {
  if (left && right && !left.changed) return line(left, "same");
  return [left && line(left, "removed"), right && line(right, "added")];
}

function line(side, kind) {
  if (side === null) return el("div", { class: "line nothing" });
  const changed = side.changed ? kind : "same";
  const mark = { removed: "−", added: "+", same: " " }[changed];
  const words = side.words.map((word) => (word.changed ? el(kind === "removed" ? "del" : "ins", {}, word.text) : word.text));
  return el("div", { class: `line ${changed}` }, sign(mark, changed), el("span", {}, words.length ? words : " "));
}

const SAID = { removed: "removed: ", added: "added: " };

function sign(mark, kind = "same") {
  return [el("span", { class: "sign", "aria-hidden": "true" }, mark),
    SAID[kind] && el("span", { class: "hidden" }, SAID[kind])];
}

/** Split rows into those near a change and those that can be folded. */
function stretches(rows) {
  const near = rows.map(() => false);
  rows.forEach((each, at) => {
    if (!(each.left?.changed || each.right?.changed)) return;
    for (let other = Math.max(0, at - AROUND); other <= Math.min(rows.length - 1, at + AROUND); other += 1) near[other] = true;
  });
  const found = [];
  rows.forEach((each, at) => {
    const last = found[found.length - 1];
    if (last && last.folded === !near[at]) last.rows.push(each);
    else found.push({ folded: !near[at], rows: [each] });
  });
  for (const stretch of found) if (stretch.rows.length <= AROUND) stretch.folded = false;
  return found;
}

function folded(rows, shown) {
  const button = el("button", { type: "button", class: "fold" }, `Show ${plural(rows.length, "unchanged line")}`);
  button.addEventListener("click", () => button.replaceWith(...rows.flatMap(shown).filter(Boolean)));
  return button;
}
