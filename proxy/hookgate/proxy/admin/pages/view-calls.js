// The list of calls, live.

import { get, querystring } from "./api.js";
import { columns } from "./calls.js";
import { el, fill } from "./dom.js";
import { plural } from "./format.js";
import { heading, more, note } from "./parts.js";
import { row, table } from "./table.js";

const OUTCOMES = ["answered", "blocked", "denied", "stopped", "synthetic", "refused", "failed", "left", "interrupted"];
const FILTERS = ["outcome", "session", "key", "model"];
const MOST_ROWS = 500;
const SPEAK_EVERY_MS = 10_000;

export async function showCalls({ query, announce }) {
  const wanted = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const page = await get("calls", wanted);
  const shown = columns(page.currency);
  const list = table("Calls, latest first", shown, page.calls);
  const body = list.querySelector("tbody");
  const empty = note(FILTERS.some((name) => wanted[name]) ? "No call matches this filter." : "No calls yet. They appear here as they end.");
  const news = new News(body, shown, wanted, announce, page, () => { empty.hidden = true; });
  empty.hidden = page.calls.length > 0;
  return {
    title: "Calls",
    node: [heading("Calls", news.button), filters(wanted), news.told, list, empty, older(body, shown, wanted, page)],
    live: (event, data) => event === "calls" && news.add(data),
  };
}

/** Return whether a call matches the filter, by the gateway's rules: all values but the outcome are parts of names. */
function fits(call, { outcome, ...names }) {
  const contained = ([name, part]) => call[name].toLowerCase().includes(part.toLowerCase());
  return (!outcome || call.outcome === outcome) && Object.entries(names).every(contained);
}

function filters(wanted) {
  const field = (name, title, input) => el("div", { class: "field" }, el("label", { for: `by-${name}` }, title), input);
  const text = (name, title) => field(name, title, el("input", { id: `by-${name}`, name, value: wanted[name], autocomplete: "off", spellcheck: "false" }));
  const outcome = el("select", { id: "by-outcome", name: "outcome" }, el("option", { value: "" }, "any"),
    OUTCOMES.map((each) => el("option", { value: each, selected: each === wanted.outcome }, each)));
  const form = el("form", { class: "filters", "aria-label": "Filter calls" },
    field("outcome", "Outcome", outcome), text("session", "Session"), text("key", "Key"), text("model", "Model"),
    el("div", { class: "field buttons" }, el("button", { type: "submit", class: "primary" }, "Filter"), el("a", { class: "button", href: "#/calls" }, "Clear")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
    location.hash = `#/calls${querystring(chosen)}`;
  });
  return form;
}

function older(body, shown, wanted, page) {
  let { older: before } = page;
  const [node, button] = more("Load older calls", async () => {
    const next = await get("calls", { ...wanted, before });
    const rows = next.calls.map((call) => row(shown, call));
    body.append(...rows);
    before = next.older;
    button.hidden = !before;
    rows[0]?.querySelector("a")?.focus(); // the reader goes on where the new ones begin
  });
  button.hidden = !before;
  return node;
}

/** Adds calls that end while the list is open at its top, unless the user has paused it. */
class News {
  #known;
  #oldest;
  #paused = false;
  #waiting = [];
  #missed = 0;
  #unsaid = 0;
  #spoke = 0;

  constructor(body, shown, wanted, announce, page, first) {
    Object.assign(this, { body, shown, wanted, announce, first });
    this.#known = new Set(page.calls.map((call) => call.id));
    this.#oldest = page.older ? page.calls.at(-1).at : 0; // what ended before is on the next pages
    this.told = el("p", { class: "news", hidden: true });
    this.button = el("button", { type: "button", "aria-pressed": "false", on: { click: () => this.#toggle() } }, "Pause");
  }

  add({ count: ended, rows }) {
    const fresh = rows.filter((call) => call.at > this.#oldest && !this.#known.has(call.id));
    fresh.forEach((call) => this.#known.add(call.id));
    for (const id of this.#known) {
      if (this.#known.size <= MOST_ROWS * 2) break;
      this.#known.delete(id); // the oldest
    }
    const fitting = fresh.filter((call) => fits(call, this.wanted));
    this.#waiting = [...this.#waiting, ...fitting].slice(-MOST_ROWS);
    this.#missed += ended - rows.length;
    if (!this.#paused) this.#show();
    else if (fitting.length) this.#tell(`${plural(this.#waiting.length, "new call")} since you paused.`);
  }

  #toggle() {
    this.#paused = !this.#paused;
    this.button.setAttribute("aria-pressed", String(this.#paused));
    this.button.textContent = this.#paused ? "Resume" : "Pause";
    if (this.#paused) this.#tell("Paused: new calls appear when you resume.");
    else this.#show();
  }

  #show() {
    if (this.#waiting.length) this.first();
    for (const call of this.#waiting) {
      this.body.prepend(row(this.shown, call, { class: "new" }));
    }
    while (this.body.rows.length > MOST_ROWS) this.body.lastElementChild.remove();
    this.#unsaid += this.#waiting.length;
    this.#waiting = [];
    this.#tell(this.#missed ? `${plural(this.#missed, "more call")} ended too quickly to be shown here; reload to see them.` : "");
    if (this.#unsaid && Date.now() - this.#spoke > SPEAK_EVERY_MS) {
      this.announce(plural(this.#unsaid, "new call"));
      this.#spoke = Date.now();
      this.#unsaid = 0;
    }
  }

  #tell(told) {
    fill(this.told, told);
    this.told.hidden = !told;
  }
}
