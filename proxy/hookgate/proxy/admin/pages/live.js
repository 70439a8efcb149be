// Live events of the gateway while the page is open.

import { liveAddress } from "./api.js";

const AGAIN_MS = 5000;

/** Calls `told(event, data)` for each event, and `state("live" | "waiting" | "refused", again)` as the connection comes and goes. */
export class Live {
  #source = null;
  #timer = 0;
  #opened = false;

  constructor(told, state) {
    this.told = told;
    this.state = state;
  }

  start() {
    this.stop();
    this.#source = new EventSource(liveAddress());
    this.#source.addEventListener("open", () => {
      this.state("live", this.#opened);
      this.#opened = true;
    });
    for (const name of ["calls", "hooks"]) {
      this.#source.addEventListener(name, (event) => this.told(name, JSON.parse(event.data)));
    }
    this.#source.addEventListener("error", () => this.#failed());
  }

  stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #failed() {
    // Browsers do not reconnect after an error response.
    const refused = this.#source?.readyState === EventSource.CLOSED;
    if (refused) this.#timer = setTimeout(() => this.start(), AGAIN_MS);
    this.state(refused ? "refused" : "waiting", false);
  }
}
