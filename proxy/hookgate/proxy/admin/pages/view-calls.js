// The list of the calls of a query, live.

import { get, proofOf } from "./api.js";
import { columns } from "./calls.js";
import { el, fill } from "./dom.js";
import { plural } from "./format.js";
import { Fresh } from "./fresh.js";
import { heading, more, note } from "./parts.js";
import { callsAddress, zoned } from "./query.js";
import { downloads, orders, search, tried } from "./search.js";
import { row, table } from "./table.js";

const MOST_ROWS = 500;
const SPEAK_EVERY_MS = 10_000;

export async function showCalls({ query: given, announce }) {
  const { q = "", ...others } = Object.fromEntries(given);
  const query = zoned(q);
  const [page, problem] = await tried(() => get("calls", { q: query, ...others }));
  const form = search({ query: q, address: callsAddress, problem });
  if (!page) return { title: "Calls", node: [heading("Calls"), form] };
  const shown = columns(page.currency);
  const list = table("Calls", shown, page.calls);
  const body = list.querySelector("tbody");
  const empty = note(q ? "No call matches this query." : "No calls yet. They appear here as they end.");
  empty.hidden = page.calls.length > 0;
  const audited = page.source === "audit";
  const news = /(?:^|\s)sort:/u.test(q) && !/(?:^|\s)sort:time(?:-desc)?(?:\s|$)/u.test(q)
    ? null : new News(body, shown, query, announce, page, () => { empty.hidden = true; });
  return {
    title: "Calls",
    node: [heading("Calls", news?.button), form, audited && orders(q, callsAddress), news?.told, list, empty,
      audited && page.calls.length > 0 && downloads(query, proofOf()), older(body, shown, query, page)],
    live: (event) => event === "calls" && news?.fresh.soon(),
    close: () => news?.fresh.close(),
  };
}

function older(body, shown, query, page) {
  let { older: before } = page;
  const [node, button] = more("Load older calls", async () => {
    const next = await get("calls", { q: query, before });
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
  #missed = false;
  #unsaid = 0;
  #spoke = 0;

  constructor(body, shown, query, announce, page, first) {
    Object.assign(this, { body, shown, query, announce, first });
    this.#known = page.calls.map((call) => call.id);
    this.#oldest = page.older ? page.calls.at(-1).at : 0; // what ended before is on the next pages
    this.told = el("p", { class: "news", hidden: true });
    this.button = el("button", { type: "button", "aria-pressed": "false", on: { click: () => this.#toggle() } }, "Pause");
    this.fresh = new Fresh(() => this.#load(), 250);
  }

  async #load() {
    const { calls, older: more } = await get("calls", { q: this.query });
    const known = new Set(this.#known);
    const fresh = calls.filter((call) => call.at >= this.#oldest && !known.has(call.id));
    this.#missed ||= Boolean(more) && known.size > 0 && fresh.length === calls.length;
    this.#known = [...fresh.map((call) => call.id), ...this.#known].slice(0, 2 * MOST_ROWS);
    this.#waiting = [...fresh, ...this.#waiting].slice(0, MOST_ROWS);
    if (!this.#paused) this.#show();
    else if (this.#waiting.length) this.#tell(`${plural(this.#waiting.length, "new call")} since you paused.`);
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
    this.body.prepend(...this.#waiting.map((call) => row(this.shown, call, { class: "new" })));
    while (this.body.rows.length > MOST_ROWS) this.body.lastElementChild.remove();
    this.#unsaid += this.#waiting.length;
    this.#waiting = [];
    this.#tell(this.#missed ? "More calls ended too quickly to be shown here; reload to see all of them." : "");
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
