// The form for the admin token.

import { signIn } from "./api.js";
import { el, fill } from "./dom.js";
import { heading } from "./parts.js";

/** A view with the form; `done` is called once the token was taken. */
export function showSignIn(done) {
  const input = el("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true, "aria-describedby": "token-help token-error" });
  const error = el("p", { id: "token-error", class: "error", role: "alert" });
  const form = el("form", { class: "card sign-in" },
    el("label", { for: "token" }, "Admin token"), input,
    el("p", { id: "token-help", class: "muted" }, "It is set as admin.token or admin.token_file where the gateway runs; else its log tells a link with it at the start."),
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
  return { title: "Sign in", node: [heading("Sign in to hookgate"), form] };
}
