// The form for the admin token.

import { signIn } from "./api.js";
import { el, fill } from "./dom.js";
import { heading } from "./parts.js";

/** Return the view with the form. `done` is called once the token was accepted. */
export function showSignIn(done) {
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
  return { title: "Sign in", node: [heading("Sign in to hookgate"), form] };
}
