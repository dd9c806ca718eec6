// The token of the cluster: asked for once, sent with each change, and forgotten when the tab is closed.

import { byId } from "./format.js";

const KEY = "herdless-token";

export class Login {
  #needed = false;
  #page = "";
  #token = kept();
  #onChange;

  // `onChange` is told whenever it has become possible, or impossible, to change something.
  constructor(onChange) {
    this.#onChange = onChange;
    byId("login-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#enter(byId("login-token").value.trim());
    });
    byId("login-out").addEventListener("click", () => this.forget(""));
  }

  // What the console has said: whether it asks for a token, and the secret of its pages.
  describe(needed, page) {
    this.#needed = needed;
    this.#page = page;
    this.#draw();
  }

  get isOpen() {
    return !this.#needed || this.#token !== "";
  }

  headers() {
    const own = { "Content-Type": "application/json", "X-Herdless-Token": this.#page };
    return this.#token ? { ...own, Authorization: `Bearer ${this.#token}` } : own;
  }

  forget(why) {
    this.#keep("");
    this.#draw(why);
    this.#onChange();
  }

  async #enter(token) {
    if (!token) return this.#draw("Fill in the token first.");
    this.#token = token;
    let why = "The console does not answer.";
    try {
      const response = await fetch("v1/login", { method: "POST", headers: this.headers(), body: "{}" });
      why = response.ok ? "" : response.status === 401 ? "That is not the token of this cluster." : (await response.json()).error.message;
    } catch (error) {
      if (error instanceof TypeError && !/^[\x21-\x7e]+$/.test(token)) why = "That is no token.";
    }
    if (why) return this.forget(why);
    this.#keep(token);
    byId("login-token").value = "";
    this.#draw("");
    this.#onChange();
  }

  #keep(token) {
    this.#token = token;
    try {
      if (token) sessionStorage.setItem(KEY, token);
      else sessionStorage.removeItem(KEY);
    } catch {
      // Storage is forbidden: it is kept as long as the page.
    }
  }

  // What was wrong stays until there is something else to say.
  #draw(why) {
    byId("login-form").hidden = this.isOpen;
    byId("login-out").hidden = !(this.#needed && this.isOpen);
    if (why !== undefined) byId("login-why").textContent = why;
  }
}

function kept() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
