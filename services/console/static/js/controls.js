// What may be changed: policy, load, servers. Each answer is shown; a mistake is told in the console's own words.

import { amount, byId, element } from "./format.js";
import { parameterForm } from "./parameters.js";

export class Controls {
  #login;
  #can = {};
  #policies = new Map();
  #inForce = null;
  #load = null;
  #read = () => ({});
  #loadTouched = false;

  constructor(login) {
    this.#login = login;
    byId("policy-name").addEventListener("change", () => this.#draw({}));
    byId("policy-form").addEventListener("submit", (event) => this.#submit(event, () => this.#switch()));
    byId("policy-reset").addEventListener("click", () => this.#drawInForce());
    byId("load-range").addEventListener("input", () => {
      this.#loadTouched = true;
      byId("load-shown").textContent = amount(Number(byId("load-range").value));
    });
    byId("load-form").addEventListener("submit", (event) => this.#submit(event, () => this.#setLoad(Number(byId("load-range").value))));
    byId("load-pause").addEventListener("click", () => this.#setLoad(this.#load?.load ? 0 : this.#load?.before ?? 0.8));
    byId("add-form").addEventListener("submit", (event) => this.#submit(event, () => this.act("add", {
      pool: byId("add-pool").value, servers: Number(byId("add-servers").value),
    })));
    byId("sure-no").addEventListener("click", () => byId("sure").close());
  }

  describe({ can, policies, scenario }) {
    this.#can = can;
    this.#policies = new Map(policies.map((policy) => [policy.name, policy]));
    byId("policy-name").replaceChildren(...policies.map(({ name }) => element("option", { value: name }, name)));
    byId("add-pool").replaceChildren(...scenario.pools.map(({ name }) => element("option", { value: name }, name)));
    for (const [form, action] of [["policy-form", "policy"], ["load-form", "load"], ["add-form", "add"]]) {
      for (const part of byId(form).querySelectorAll("input, select, button")) part.disabled = !can[action];
    }
    byId("add-form").hidden = !can.add;
    const missing = [!can.policy && (this.#login.isOpen ? "read only" : "log in to change something"), can.policy && !can.load && "no generator", can.policy && !can.add && "cannot add or kill"];
    byId("controls-note").textContent = missing.filter(Boolean).join(", ");
    this.#inForce = null;
  }

  // What is so now; forms that somebody is filling in are left alone.
  show({ policy, load }) {
    const first = this.#inForce === null;
    const changed = JSON.stringify(policy) !== JSON.stringify(this.#inForce);
    if (policy) this.#inForce = policy;
    if (policy && (first || (changed && !byId("policy-form").contains(document.activeElement)))) this.#drawInForce();
    this.#load = load;
    byId("load-form").hidden = !load;
    if (!load) return;
    byId("load-pause").textContent = load.load > 0 ? "Pause" : "Resume";
    const range = byId("load-range");
    if (load.load > Number(range.max)) range.max = (load.load * 1.5).toFixed(1);
    if (!this.#loadTouched && load.load > 0) {
      range.value = load.load;
      byId("load-shown").textContent = amount(load.load);
    }
  }

  // Ask the console to do something, after asking whether it is meant.
  async act(action, body, question = "") {
    if (question && !(await sure(question))) return;
    await this.#do(action, body);
  }

  allows(action) {
    return Boolean(this.#can[action]);
  }

  async #submit(event, act) {
    event.preventDefault();
    const button = event.submitter;
    if (button) button.disabled = true;
    try {
      await act();
    } finally {
      if (button) button.disabled = false;
    }
  }

  async #switch() {
    await this.#do("policy", { name: byId("policy-name").value, ...this.#read() });
  }

  async #setLoad(load) {
    this.#loadTouched = false;
    await this.#do("load", { load });
  }

  #drawInForce() {
    if (!this.#inForce) return;
    byId("policy-name").value = this.#inForce.name;
    this.#draw(this.#inForce);
  }

  #draw(values) {
    const policy = this.#policies.get(byId("policy-name").value);
    byId("policy-about").textContent = policy.about;
    byId("policy-parameters").replaceChildren();
    this.#read = parameterForm(byId("policy-parameters"), policy.parameters, values, !this.#can.policy);
  }

  async #do(action, body) {
    this.#say("", "asking…");
    try {
      const response = await fetch(`v1/do/${action}`, {
        method: "POST",
        headers: this.#login.headers(),
        body: JSON.stringify(body),
      });
      const answer = await response.json();
      if (response.status === 401) this.#login.forget("The console no longer takes that token.");
      if (response.ok) this.#say("done", "Done.");
      else this.#say("wrong", answer.error?.message ?? `refused (${response.status})`);
    } catch {
      this.#say("wrong", "The console does not answer.");
    }
  }

  #say(kind, text) {
    byId("answer").dataset.kind = kind;
    byId("answer").textContent = text;
  }
}

function sure(question) {
  const dialog = byId("sure");
  byId("sure-text").textContent = question;
  dialog.returnValue = "";
  return new Promise((resolve) => {
    const yes = () => dialog.close("yes");
    byId("sure-yes").addEventListener("click", yes, { once: true });
    dialog.addEventListener("close", () => {
      byId("sure-yes").removeEventListener("click", yes);
      resolve(dialog.returnValue === "yes");
    }, { once: true });
    dialog.showModal();
    byId("sure-no").focus();
  });
}
