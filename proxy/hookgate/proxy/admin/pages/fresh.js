// Loads a view's data again: soon after calls have ended at this gateway, and from time to time for the other ones.

const SOON_MS = 1000;
const ELSEWHERE_MS = 10_000;

/** Calls `load`, which returns a promise, while a view is open. Its errors are told at the top of the page. */
export class Fresh {
  #timer = 0;
  #soon = 0;

  constructor(load, soon = SOON_MS) {
    this.load = load;
    this.#soon = soon;
    this.#wait(ELSEWHERE_MS);
  }

  /** Load soon, if that is not planned yet. */
  soon() {
    if (this.#due - Date.now() > this.#soon) this.#wait(this.#soon);
  }

  close() {
    clearTimeout(this.#timer);
    this.load = null;
  }

  #due = 0;

  #wait(ms) {
    clearTimeout(this.#timer);
    this.#due = Date.now() + ms;
    this.#timer = setTimeout(async () => {
      if (!document.hidden) await this.load?.().catch(() => {});
      if (this.load) this.#wait(ELSEWHERE_MS);
    }, ms);
  }
}
