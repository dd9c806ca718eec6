// The quantities of the last ten seconds, each with what a model predicts.

import { amount, byId, element } from "./format.js";

const TILES = [
  ["wait_probability", "P(waiting)", ""],
  ["block_probability", "P(blocked)", ""],
  ["abandon_probability", "P(abandoned)", ""],
  ["messages.total", "Messages/job", ""],
  ["waiting_mean", "Mean waiting", "units"],
  ["sojourn_mean", "Mean sojourn", "units"],
  ["sojourn_p50", "Sojourn p50", "units"],
  ["sojourn_p95", "Sojourn p95", "units"],
  ["sojourn_p99", "Sojourn p99", "units"],
];

export class Tiles {
  #values = new Map();
  #models = new Map();

  constructor() {
    for (const [name, title, unit] of TILES) this.#make(name, title, unit);
  }

  setValues(values) {
    for (const [name, shown] of this.#values) shown.textContent = amount(values[name]);
  }

  setModels({ asked, values }) {
    for (const [name, shown] of this.#models) {
      const model = values[name];
      if (!model) {
        shown.replaceChildren(asked ? "no model" : "asking a model…");
        shown.title = "";
        continue;
      }
      const method = element("span", { class: "method", "data-exact": String(model.exact) }, model.method);
      shown.replaceChildren(method, element("b", { class: "num" }, amount(model.value)));
      const strict = model.exact ? "It holds for a system of this size." : "It is approached as the system grows.";
      shown.title = `${model.kind}. ${strict} Assumes ${model.assumes}. ${model.source}`;
    }
  }

  #make(name, title, unit) {
    const value = element("span", { "data-value": name }, "–");
    const model = element("p", { class: "model", "data-model": name }, "asking a model…");
    const tile = element(
      "div", { class: "tile", role: "group", "aria-label": title },
      element("h2", {}, title),
      element("p", { class: "value num" }, value, unit ? element("span", { class: "unit" }, ` ${unit}`) : ""),
      model,
    );
    byId("tiles").append(tile);
    this.#values.set(name, value);
    this.#models.set(name, model);
  }
}
