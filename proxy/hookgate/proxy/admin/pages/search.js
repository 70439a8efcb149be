// The field for a query, with the words as hints, and links that change a part of the query.

import { get, querystring } from "./api.js";
import { el, fill } from "./dom.js";
import { RANGES, rangeOf, withParts, withRange } from "./query.js";

const ID = /^[0-9a-f]{4,32}$/u;

let known = null; // the words; they are the same for every view

/** Return a form for the query of a view. `address(q)` is that of the view with another query; `problem` is what the gateway says about this one. */
export function search({ query, address, problem = "", ranges = true }) {
  const input = el("input", {
    id: "query", name: "q", type: "search", value: query, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    placeholder: "team:web outcome:denied since:7d", "aria-describedby": problem ? "query-problem" : null, "aria-invalid": problem ? "true" : null,
  });
  const form = el("form", { class: "search", role: "search", "aria-label": "Find calls" },
    el("label", { for: "query" }, "Query, or the first digits of a call's ID"),
    el("div", { class: "search-line" }, input,
      el("button", { type: "submit", class: "primary" }, "Find"), el("a", { class: "button", href: address("") }, "Clear")),
    problem && el("p", { class: "error", role: "alert", id: "query-problem" }, problem),
    hints(input));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const before = location.hash;
    location.hash = ID.test(text) ? `#/calls/${text}` : address(text);
    if (location.hash === before) dispatchEvent(new Event("hashchange")); // the same query finds what is new
  });
  return [form, ranges && choices("Time", RANGES.map(([range, title]) => [address(withRange(query, range)), title, rangeOf(query) === range]))];
}

/** Return links of which one is chosen: triples of an address, a title, and whether it is the one. */
export function choices(label, all) {
  return el("nav", { "aria-label": label }, el("ul", { class: "choices" }, all.map(([href, title, chosen]) =>
    el("li", {}, el("a", { href, "aria-current": chosen ? "true" : null }, title)))));
}

/** Return links to other orders of a query's calls. */
export function orders(query, address) {
  const sort = /(?:^|\s)sort:(\S+)/u.exec(query)?.[1] ?? "time";
  const titles = [["time", "Newest"], ["time-asc", "Oldest"], ["cost", "Most cost"], ["tokens", "Most tokens"], ["duration", "Longest"]];
  return choices("Order", titles.map(([name, title]) => [address(withParts(query, `sort:${name}`)), title, name === sort]));
}

/** Return what the words mean; to press one puts it into the field. */
function hints(input) {
  const list = el("dl", { class: "words" });
  const details = el("details", {}, el("summary", {}, "Words of a query"), list);
  details.addEventListener("toggle", async () => {
    if (!details.open || list.childElementCount) return;
    known ??= (await get("words")).words;
    fill(list, known.map(({ name, help }) => el("div", {},
      el("dt", {}, el("button", { type: "button", class: "quiet", on: { click: () => put(input, name) } }, el("code", {}, `${name}:`))),
      el("dd", {}, help))));
  });
  return details;
}

function put(input, name) {
  input.value = `${input.value.trim()} ${name}:`.trimStart();
  input.focus();
}

/** Return the answer of `load`, or what the gateway says against the query. */
export async function tried(load) {
  try {
    return [await load(), ""];
  } catch (error) {
    if (![400, 403].includes(error.status)) throw error;
    return [null, error.message.replace(/^q: /u, "")];
  }
}

/** Return links to download the calls of a query. */
export function downloads(query, proof) {
  return el("p", { class: "downloads" }, "Download all of them: ",
    [["csv", "CSV"], ["jsonl", "lines of JSON"]].flatMap(([format, title], at) => [at > 0 && ", ",
      el("a", { href: `api/calls${querystring({ q: query, format, proof })}`, download: `calls.${format}` }, title)]));
}
