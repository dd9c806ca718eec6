// Routers, server processes and the log of events.

import { amount, byId, clock, count, element } from "./format.js";

const MOST_EVENTS = 200;

export function showRouters(rows) {
  const cell = (text) => element("td", { class: "num" }, text);
  byId("routers").replaceChildren(
    ...(rows.length
      ? rows.map((row) => element(
          "tr", {}, element("th", { scope: "row" }, row.name), element("td", {}, row.policy), cell(amount(row.jobs_per_s)),
          cell(count(row.in_flight)), cell(count(row.held)), cell(row.cpu === null ? "–" : `${(row.cpu * 100).toFixed(0)}%`),
        ))
      : [element("tr", {}, element("td", { colspan: "6", class: "empty" }, "No router answers."))]),
  );
}

// Rows stay the same elements while a process lives, so that a button keeps the focus.
export class Processes {
  #rows = new Map();
  #can;
  #act;

  constructor(act) {
    this.#act = act;
  }

  allow(can) {
    this.#can = can;
    this.#rows.clear();
    byId("processes").replaceChildren();
  }

  show(rows) {
    const body = byId("processes");
    if (!rows.length) {
      this.#rows.clear();
      body.replaceChildren(element("tr", {}, element("td", { colspan: "5", class: "empty" }, "No server process is known.")));
      return;
    }
    if (!this.#rows.size) body.replaceChildren();
    const there = new Set(rows.map((row) => row.url));
    for (const [url, made] of this.#rows) {
      if (!there.has(url)) {
        made.row.remove();
        this.#rows.delete(url);
      }
    }
    for (const row of rows) {
      let made = this.#rows.get(row.url);
      if (!made) {
        made = this.#make(row);
        this.#rows.set(row.url, made);
        body.append(made.row);
      }
      made.servers.textContent = row.draining ? `${count(row.servers)} (${count(row.draining)} draining)` : count(row.servers);
      made.jobs.textContent = count(row.jobs);
      made.links.textContent = count(row.links_up);
      made.drain.disabled = !this.#can.drain || row.draining === row.servers;
    }
  }

  #make({ url, name, pool }) {
    const cells = ["servers", "jobs", "links"].map((key) => [key, element("td", { class: "num" })]);
    const drain = element("button", { type: "button", "aria-label": `Drain ${name}` }, "Drain");
    drain.addEventListener("click", () => this.#act("drain", { process: url }, `Drain ${name}? Its servers finish what they have and take nothing new.`));
    const kill = element("button", { type: "button", class: "danger", "aria-label": `Kill ${name}` }, "Kill");
    kill.hidden = !this.#can.kill;
    kill.addEventListener("click", () => this.#act("kill", { process: url }, `Kill ${name}? The jobs that it has are lost.`));
    const buttons = element("td", {}, element("div", { class: "row" }, drain, kill));
    const head = element("th", { scope: "row" }, name);
    head.title = `pool ${pool}, ${url}`;
    return { row: element("tr", {}, head, ...cells.map(([, cell]) => cell), buttons), drain, ...Object.fromEntries(cells) };
  }
}

export class EventLog {
  #last = 0;

  // Entries that are shown already come again after a connection was lost.
  add(entries) {
    const list = byId("journal");
    list.querySelector(".empty")?.remove();
    for (const { n, at_s, kind, text } of entries) {
      if (n <= this.#last) continue;
      this.#last = n;
      list.prepend(element("li", { "data-kind": kind }, element("time", {}, clock(at_s)), element("span", {}, text)));
    }
    while (list.children.length > MOST_EVENTS) list.lastElementChild.remove();
    if (!list.children.length) list.append(element("li", { class: "empty" }, "Nothing has happened yet."));
  }

  clear() {
    this.#last = 0;
    byId("journal").replaceChildren();
  }
}
