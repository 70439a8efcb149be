// The form for the admin token, and the button for people who sign in at an identity provider.

import { goToProvider, signIn } from "./api.js";
import { el, fill } from "./dom.js";
import { heading } from "./parts.js";

const KEY = "hookgate-return";

/** Return the view that was left for the identity provider, as the part of an address after the path. */
export function returnPlace() {
  try {
    const kept = sessionStorage.getItem(KEY) ?? "";
    return kept.startsWith("#/") ? kept : "#/";
  } catch {
    return "#/"; // a browser that keeps nothing
  }
}

/**
 * Return the view. `provider` is the host of the identity provider, if there is one, and `refusal` the reason why it
 * did not help. `done` is called once the token was accepted.
 */
export function showSignIn(provider, refusal, done) {
  const form = tokenForm(done);
  const told = refusal && el("p", { class: "message error", role: "alert" }, refusal);
  const ways = provider
    ? [providerCard(provider), el("details", { class: "sign-in" }, el("summary", {}, "Sign in with the admin token"), form)]
    : [form];
  return { title: "Sign in", node: [heading("Sign in to hookgate"), told || [], ways].flat() };
}

function providerCard(provider) {
  const error = el("p", { class: "error", role: "alert" });
  const button = el("button", { type: "button", class: "primary" }, `Sign in with ${provider}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    fill(error);
    try {
      sessionStorage.setItem(KEY, location.hash);
    } catch {
      // without storage, the overview is shown after the sign-in
    }
    await goToProvider().catch((failure) => {
      button.disabled = false;
      fill(error, failure.message);
    });
  });
  return el("div", { class: "card sign-in" }, button, error);
}

function tokenForm(done) {
  const input = el("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true, "aria-describedby": "token-help token-error" });
  const error = el("p", { id: "token-error", class: "error", role: "alert" });
  const form = el("form", { class: "card sign-in" },
    el("label", { for: "token" }, "Admin token"), input,
    el("p", { id: "token-help", class: "muted" }, "The token is set as admin.token or admin.token_file in the gateway's configuration. If neither is set, the gateway logs a link with a token when it starts."),
    error, el("button", { type: "submit", class: "primary" }, "Sign in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await signIn(input.value);
      done();
    } catch (failure) {
      fill(error, failure.message);
      input.value = "";
      input.focus();
    }
  });
  return form;
}
