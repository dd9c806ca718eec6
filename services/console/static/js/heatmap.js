// Queue lengths as a heat map, a canvas for each pool. Drawn when a frame is due, at most once for what has come.

import { amount, byId, count, element } from "./format.js";
import { colours, scaleTop } from "./palette.js";

const GAP = 2;
const LARGEST = 40;
const SMALLEST = 6;
const TALLEST = 230; // of a pool, in pixels, if cells need not get too small for it

export class HeatMap {
  #holder = byId("pools");
  #pools = [];
  #servers = [];
  #lengths = [];
  #about = new Map();
  #top = 4;
  #colours = [];
  #chosen = null;
  #due = false;
  #values = {};
  #models = {};
  #onChoose;

  constructor(onChoose) {
    this.#onChoose = onChoose;
    addEventListener("themechange", () => this.#restyle());
    new ResizeObserver(() => this.#layOut()).observe(this.#holder);
    this.#restyle();
  }

  // What the scenario says of its pools.
  describe(pools) {
    this.#about = new Map(pools.map((pool) => [pool.name, pool]));
  }

  // Which servers there are; they come pool after pool.
  setFleet(servers) {
    const chosen = this.#chosen === null ? null : this.#servers[this.#chosen]?.[0];
    this.#servers = servers;
    const place = servers.findIndex((server) => server[0] === chosen);
    this.#chosen = place < 0 ? null : place;
    const names = [...new Set(servers.map((server) => server[1]))];
    if (names.join("\n") !== this.#pools.map((pool) => pool.name).join("\n")) this.#build(names);
    for (const pool of this.#pools) {
      pool.first = servers.findIndex((server) => server[1] === pool.name);
      pool.size = servers.filter((server) => server[1] === pool.name).length;
      pool.drains = servers.slice(pool.first, pool.first + pool.size).filter((server) => server[2]).length;
    }
    this.#layOut();
    this.#onChoose(this.chosen());
  }

  setLengths(lengths) {
    if (lengths.length !== this.#servers.length) return; // of another fleet: the next ones fit
    this.#lengths = lengths;
    this.#ask();
  }

  // Quantities of pools: how busy they are, and how busy a model says that they are.
  setValues(values) {
    this.#values = values;
  }

  setModels(models) {
    this.#models = models;
  }

  // The server that is pointed at.
  chosen() {
    if (this.#chosen === null || !this.#servers[this.#chosen]) return null;
    const [id, pool, drains, process] = this.#servers[this.#chosen];
    const slots = this.#about.get(pool)?.slots ?? 1;
    const length = this.#lengths[this.#chosen] ?? 0;
    return { id, pool, drains: drains === 1, process, length, busy: Math.min(length, slots), slots };
  }

  #build(names) {
    this.#holder.replaceChildren();
    this.#pools = names.map((name) => {
      const facts = element("span", { class: "quiet num" });
      const canvas = element("canvas", {
        tabindex: "0", role: "application", "aria-roledescription": "heat map", "aria-describedby": "chosen-text",
      });
      const busy = element("span", { class: "quiet num", "data-busy": name });
      const head = element("div", { class: "pool-head" }, element("span", {}, element("b", {}, name), " ", busy), facts);
      const pool = { name, canvas, facts, busy, context: canvas.getContext("2d", { alpha: true }), first: 0, size: 0 };
      this.#holder.append(element("div", { class: "pool" }, head, canvas));
      canvas.addEventListener("pointermove", (event) => this.#point(pool, event));
      canvas.addEventListener("pointerdown", (event) => this.#point(pool, event));
      canvas.addEventListener("keydown", (event) => this.#step(pool, event));
      return pool;
    });
    if (!names.length) this.#holder.append(element("p", { class: "empty" }, "No server is linked."));
  }

  #layOut() {
    const width = this.#holder.clientWidth;
    const ratio = devicePixelRatio || 1;
    for (const pool of this.#pools) {
      if (!pool.size || !width) continue;
      let cell = LARGEST;
      const columns = () => Math.max(Math.floor((width + GAP) / (cell + GAP)), 1);
      const height = () => Math.ceil(pool.size / columns()) * (cell + GAP) - GAP;
      while (cell > SMALLEST && height() > TALLEST) cell -= 1;
      Object.assign(pool, { cell, columns: columns(), ratio });
      pool.canvas.width = Math.round(width * ratio);
      pool.canvas.height = Math.round(height() * ratio);
      pool.canvas.style.height = `${height()}px`;
    }
    this.#ask();
  }

  #restyle() {
    const style = getComputedStyle(document.documentElement);
    this.#colours = colours(this.#top, document.documentElement.dataset.theme);
    this.text = style.getPropertyValue("--text").trim();
    this.card = style.getPropertyValue("--card").trim();
    this.#drawLegend();
    this.#ask();
  }

  #ask() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#draw();
    });
  }

  #draw() {
    let longest = 0;
    for (const length of this.#lengths) if (length > longest) longest = length;
    const top = scaleTop(longest, this.#top);
    if (top !== this.#top) {
      this.#top = top;
      this.#colours = colours(top, document.documentElement.dataset.theme);
      this.#drawLegend();
    }
    for (const pool of this.#pools) this.#drawPool(pool);
    this.#onChoose(this.chosen());
  }

  #drawPool(pool) {
    const { context, canvas, cell, columns, first, size, ratio } = pool;
    if (!cell) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    let idle = 0;
    let jobs = 0;
    let longest = 0;
    for (let i = 0; i < size; i += 1) {
      const length = this.#lengths[first + i] ?? 0;
      const x = (i % columns) * (cell + GAP);
      const y = Math.floor(i / columns) * (cell + GAP);
      context.fillStyle = this.#colours[Math.min(length, this.#top)];
      context.fillRect(x, y, cell, cell);
      if (this.#servers[first + i][2]) this.#cross(context, x, y, cell);
      if (first + i === this.#chosen) this.#frame(context, x, y, cell);
      idle += length === 0;
      jobs += length;
      if (length > longest) longest = length;
    }
    const drains = pool.drains ? `, ${count(pool.drains)} draining` : "";
    pool.facts.textContent = `${count(size)} servers${drains} · ${count(idle)} idle · ${count(jobs)} jobs · longest ${count(longest)}`;
    pool.busy.textContent = this.#busy(pool.name);
    canvas.setAttribute("aria-label", `Queue lengths of pool ${pool.name}: ${count(size)} servers`);
    canvas.dataset.servers = size;
  }

  #busy(pool) {
    const value = this.#values[`utilisation.${pool}`];
    const model = this.#models[`utilisation.${pool}`];
    if (value === undefined) return "";
    return model ? `busy ${amount(value)}, ${model.method} ${amount(model.value)}` : `busy ${amount(value)}`;
  }

  #cross(context, x, y, cell) {
    context.strokeStyle = this.text;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x + 1, y + cell - 1);
    context.lineTo(x + cell - 1, y + 1);
    context.stroke();
  }

  #frame(context, x, y, cell) {
    context.lineWidth = 2;
    context.strokeStyle = this.card;
    context.strokeRect(x + 1.5, y + 1.5, cell - 3, cell - 3);
    context.strokeStyle = this.text;
    context.strokeRect(x, y, cell, cell);
  }

  #point(pool, event) {
    const step = pool.cell + GAP;
    const column = Math.floor(event.offsetX / step);
    const place = Math.floor(event.offsetY / step) * pool.columns + column;
    if (column < pool.columns && place >= 0 && place < pool.size) this.#choose(pool.first + place);
  }

  #step(pool, event) {
    const here = this.#chosen === null ? -1 : this.#chosen - pool.first;
    const inside = here >= 0 && here < pool.size;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: pool.columns, ArrowUp: -pool.columns };
    let place;
    if (event.key === "Home") place = 0;
    else if (event.key === "End") place = pool.size - 1;
    else if (event.key in steps) place = inside ? here + steps[event.key] : 0;
    else return;
    event.preventDefault();
    if (place >= 0 && place < pool.size) this.#choose(pool.first + place);
  }

  #choose(place) {
    this.#chosen = place;
    this.#ask();
  }

  #drawLegend() {
    const shown = this.#colours;
    const canvas = element("canvas", { width: 160, height: 12 });
    const context = canvas.getContext("2d");
    shown.forEach((colour, i) => {
      context.fillStyle = colour;
      const left = Math.round((i / shown.length) * 160);
      context.fillRect(left, 0, Math.round(((i + 1) / shown.length) * 160) - left, 12);
    });
    const legend = byId("legend");
    legend.replaceChildren("0", canvas, `${count(this.#top)} or more jobs`);
    legend.setAttribute("aria-label", `Colours of queue lengths, from 0 to ${this.#top} or more jobs`);
  }
}
