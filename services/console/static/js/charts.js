// The last five minutes: live values as lines, what models said of them at the time as dashed lines.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { amount, byId } from "./format.js";

const KEPT = 300;
const HEIGHT = 190;
const CHARTS = [
  ["chart-probabilities", [["wait_probability", "waiting"], ["block_probability", "blocked"], ["abandon_probability", "abandoned"]]],
  ["chart-sojourn", [["sojourn_p50", "p50"], ["sojourn_p95", "p95"], ["sojourn_p99", "p99"]]],
  ["chart-messages", [["messages.total", "messages"]]],
];

export class Charts {
  #at = [];
  #live = {};
  #model = {};
  #charts = [];

  constructor() {
    addEventListener("themechange", () => this.#build());
    new ResizeObserver(() => this.#fit()).observe(byId("chart-messages"));
  }

  // Everything that was kept before this page was opened.
  setHistory({ at_s, live, model }) {
    this.#at = at_s;
    this.#live = live;
    this.#model = model;
    this.#build();
  }

  add(atSeconds, values, models) {
    this.#at.push(atSeconds);
    for (const name of Object.keys(this.#live)) {
      this.#live[name].push(values[name] ?? null);
      this.#model[name].push(models[name]?.value ?? null);
    }
    if (this.#at.length > KEPT) {
      this.#at.shift();
      for (const columns of [this.#live, this.#model]) for (const column of Object.values(columns)) column.shift();
    }
    if (!document.hidden) this.#charts.forEach((one) => this.#refresh(one));
  }

  // Where nobody points, the legend says what is so now.
  #refresh([chart, names]) {
    chart.setData(this.#columns(names));
    if (chart.cursor.idx === null || chart.cursor.left < 0) chart.setLegend({ idx: this.#at.length - 1 });
  }

  #columns(names) {
    return [this.#at, ...names.flatMap((name) => [this.#live[name] ?? [], this.#model[name] ?? []])];
  }

  #build() {
    for (const [chart] of this.#charts) chart.destroy();
    this.#charts = CHARTS.map(([id, lines]) => {
      const holder = byId(id);
      const names = lines.map(([name]) => name);
      return [new uPlot(options(holder.clientWidth, lines), this.#columns(names), holder), names, holder];
    });
  }

  #fit() {
    for (const [chart, , holder] of this.#charts) {
      if (holder.clientWidth && holder.clientWidth !== chart.width) chart.setSize({ width: holder.clientWidth, height: HEIGHT });
    }
  }
}

function options(width, lines) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--quiet"), font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1, size: 4 },
  };
  const text = (_, value) => amount(value);
  const series = lines.flatMap(([, label], i) => {
    const stroke = colour(`--series-${i + 1}`);
    return [
      { label, stroke, width: 2, value: text, points: { show: false } },
      { label: `${label}, model`, class: "model", stroke, width: 1.5, dash: [5, 4], value: text, points: { show: false } },
    ];
  });
  return {
    width: Math.max(width, 200), height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, space: 60, size: 32, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
      { ...axis, size: 46, values: (_, ticks) => ticks.map(amount) },
    ],
    series: [{ value: "{HH}:{mm}:{ss}" }, ...series],
  };
}
