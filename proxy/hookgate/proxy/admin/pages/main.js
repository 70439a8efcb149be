// The router. The part of the address after # selects the view, so links, bookmarks and the Back button work.

import { Failed, get, post, signIn, signInByProvider } from "./api.js";
import { el, fill } from "./dom.js";
import { Live } from "./live.js";
import { heading, link, note } from "./parts.js";
import { returnPlace, showSignIn } from "./signin.js";
import { themed } from "./theme.js";
import { showAlerts } from "./view-alerts.js";
import { showApproval, showApprovals } from "./view-approvals.js";
import { showCall } from "./view-call.js";
import { showCalls } from "./view-calls.js";
import { showCompare } from "./view-compare.js";
import { showHooks } from "./view-hooks.js";
import { showOverview } from "./view-overview.js";
import { showPolicy } from "./view-policy.js";
import { REPORTS, reportView } from "./view-report.js";
import { showSession, showSessions } from "./view-sessions.js";

const byId = (id) => document.getElementById(id);
const main = byId("main");
let shown = null;
let turn = 0;
let person = null;
let refusal = "";

const ROUTES = [
  [/^$/, "overview", showOverview],
  [/^calls$/, "calls", showCalls],
  [/^calls\/([0-9a-f]{4,32})$/, "calls", showCall],
  [/^sessions$/, "sessions", showSessions],
  [/^sessions\/(.+)$/, "sessions", showSession],
  [/^hooks$/, "hooks", showHooks],
  ...Object.entries(REPORTS).map(([name, { view = name }]) => [new RegExp(`^${name}$`, "u"), view, reportView(name)]),
  [/^policy$/, "policy", showPolicy],
  [/^policy\/compare$/, "policy", showCompare],
  [/^alerts$/, "alerts", showAlerts],
  [/^approvals$/, "approvals", showApprovals],
  [/^approvals\/([0-9a-f]{4,32})$/, "approvals", showApproval],
];

/** Show the view of the address. If `quietly` is set, the view is only refreshed, so the focus stays. */
async function show(quietly = false) {
  const mine = (turn += 1);
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [route, found] = routeOf(path);
  main.setAttribute("aria-busy", "true");
  let view;
  try {
    person ??= known(await get("session"));
    if (person.role === null) throw new Failed(401, "");
    view = route ? await route[2]({ query: new URLSearchParams(query), parts: found.slice(1).map(decodeURIComponent), announce, person }) : nowhere();
  } catch (error) {
    if (mine !== turn) return;
    view = error instanceof Failed && error.status === 401 ? await asked() : failed(error);
    if (mine !== turn) return;
  }
  if (mine !== turn) return;
  shown?.close?.();
  shown = view;
  fill(main, view.node);
  main.removeAttribute("aria-busy");
  document.title = `${view.title} · hookgate`;
  mark(route?.[1]);
  if (!quietly) main.querySelector("h1")?.focus({ preventScroll: true });
  if (!quietly) scrollTo(0, 0);
}

function routeOf(path) {
  for (const route of ROUTES) {
    const found = route[0].exec(path);
    if (found) return [route, found];
  }
  return [null, null];
}

function mark(name) {
  for (const each of byId("views").querySelectorAll("a")) {
    if (each.dataset.view === name) {
      each.setAttribute("aria-current", "page");
      each.parentElement.scrollIntoView?.({ block: "nearest", inline: "nearest" }); // the views may not fit side by side
    } else each.removeAttribute("aria-current");
  }
}

function nowhere() {
  return { title: "Not found", node: [heading("There is no such view"), note(link("#/", "Go to the overview"))] };
}

function failed(error) {
  const again = el("button", { type: "button", on: { click: () => show() } }, "Try again");
  const message = error instanceof Failed ? error.message : `The page failed: ${error.message}`;
  return { title: "Failed", node: [heading("This cannot be shown"), el("p", { role: "alert" }, message), again] };
}

/** Show who is signed in, if that can be several people. Returns the session of the API. */
function known(session) {
  if (session.role) refusal = "";
  fill(byId("person"), session.role && `${session.name} · ${session.role}`);
  byId("person").hidden = !session.role || !session.provider;
  byId("sign-out").hidden = !session.role;
  return session;
}

async function asked() {
  live.stop();
  connection("signed out");
  person = null;
  const { provider } = known({ ...(await get("session").catch(() => ({}))), role: null });
  const said = refusal;
  refusal = "";
  return showSignIn(provider, said, () => {
    live.start();
    show();
  });
}

function connection(told) {
  byId("connection").textContent = told;
  byId("connection").className = `chip ${told === "live" ? "good" : "warn"}`;
}

/** Announce a message to screen readers, when they are idle. */
function announce(told) {
  fill(byId("announcer"), told);
}

const live = new Live(
  (event, data) => shown?.live?.(event, data),
  (state, again) => {
    connection(state === "live" ? "live" : "reconnecting");
    if (again) show(true); // what happened meanwhile was missed
    if (state === "refused") get("hooks").catch((error) => error.status === 401 && show());
  },
);

byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // # belongs to the routes
  main.focus();
});
byId("sign-out").addEventListener("click", async () => {
  await post("sign-out", {}).catch(() => {}); // the view shows the error then
  person = null;
  show();
});

/** Start with the view of the address. First remove a link's token, or what a provider has added, and exchange it for a session. */
async function begin(quietly) {
  const [, token] = /^#token=(.+)$/.exec(location.hash) ?? [];
  if (token) {
    history.replaceState(null, "", "#/");
    await signIn(token).catch(() => {}); // the form is shown then
    person = null;
    live.start();
  }
  if (isReturn()) {
    const answer = new URLSearchParams(location.search);
    history.replaceState(null, "", `./${returnPlace()}`);
    await signInByProvider(answer).catch((error) => {
      refusal = error.message;
    });
    if (!refusal) live.start();
  }
  show(quietly);
}

/** Return whether an identity provider has sent the browser back. */
const isReturn = () => location.pathname.endsWith("/sign-in");

addEventListener("hashchange", () => begin(false));
themed(byId("theme"));
if (!location.hash.startsWith("#token=") && !isReturn()) live.start();
begin(true);
