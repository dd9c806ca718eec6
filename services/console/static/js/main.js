// The page: what comes in by the stream goes to its parts.

import { Charts } from "./charts.js";
import { Controls } from "./controls.js";
import { amount, byId, count } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { Login } from "./login.js";
import { listen } from "./stream.js";
import { EventLog, Processes, showRouters } from "./tables.js";
import { Tiles } from "./tiles.js";

const STATES = { connecting: "connecting", live: "live", lost: "connecting again…" };

const login = new Login(() => {
  permit();
  if (latest) showStatus(latest);
});
const controls = new Controls(login);
const tiles = new Tiles();
const charts = new Charts();
const events = new EventLog();
const processes = new Processes((action, body, question) => controls.act(action, body, question));
const heat = new HeatMap(showChosen);
let models = { asked: false, values: {} };
let token = "";
let about;
let latest; // status: forms and rows are drawn anew when somebody logs in or out

// Let the page change what the console may, if the token of the cluster is there.
function permit() {
  const can = login.isOpen ? about.can : {};
  controls.describe({ ...about, can });
  processes.allow(can);
}

function showChosen(server) {
  const button = byId("drain-server");
  button.hidden = !server || !server.process || !controls.allows("drain");
  if (!server) return;
  button.disabled = server.drains;
  const waiting = server.length - server.busy;
  const jobs = server.length === 0 ? "idle" : `${count(server.length)} in the system, ${count(waiting)} of them waiting`;
  const text = `${server.id}${server.drains ? " (draining)" : ""}: ${jobs}`;
  if (byId("chosen-text").textContent !== text) byId("chosen-text").textContent = text;
  // Read aloud when another server is chosen, not whenever a job comes or goes.
  if (button.dataset.server !== server.id) byId("chosen-said").textContent = text;
  button.dataset.server = server.id;
}

function showState(state) {
  document.body.dataset.state = state;
  const shown = byId("connection");
  if (shown.dataset.state !== state) {
    shown.dataset.state = state;
    shown.textContent = STATES[state];
  }
  byId("banner").hidden = state !== "lost";
  byId("banner").textContent = state === "lost" ? "The connection to the console is lost. What you see is old; it connects again by itself." : "";
}

function showFleet({ servers, processes: urls }) {
  heat.setFleet(servers.map(([id, pool, drains, process]) => [id, pool, drains, urls[process]]));
  byId("fact-servers").textContent = count(servers.length);
}

function showModels(told) {
  models = told;
  tiles.setModels(told);
  heat.setModels(told.values);
}

function showStatus(status) {
  latest = status;
  const { policy, load, values, doubts, routers, processes: rows } = status;
  byId("doubts").hidden = !doubts.length;
  byId("doubts").textContent = `A machine of this cluster is too busy for the numbers to be trusted: ${doubts.join("; ")}.`;
  byId("fact-policy").textContent = policy ? policy.name : routers.length ? "routers differ" : "–";
  byId("fact-load").textContent = load ? (load.load > 0 ? amount(load.load) : "paused") : "–";
  byId("fact-jobs").textContent = amount(values.jobs_per_s);
  tiles.setValues(values);
  heat.setValues(values);
  controls.show(status);
  showRouters(routers);
  processes.show(rows);
}

listen(
  {
    hello(told) {
      const { scenario } = told;
      if (told.token !== token) events.clear(); // another console: its log counts from 1 again
      token = told.token;
      document.title = `${scenario.name} · Herdless`;
      byId("scenario").textContent = scenario.title || scenario.name;
      byId("source").textContent = scenario.source ? ` · ${scenario.source}` : "";
      about = told;
      login.describe(told.locked, told.token);
      permit();
      heat.describe(scenario.pools);
      showFleet(told.fleet);
      heat.setLengths(told.queues.q);
      showModels(told.models);
      charts.setHistory(told.history);
      events.add(told.log);
      if (told.status) showStatus(told.status);
    },
    fleet: showFleet,
    queues: ({ q }) => heat.setLengths(q),
    models: showModels,
    status(told) {
      showStatus(told);
      charts.add(told.at_s, told.values, models.values);
    },
    log: (entries) => events.add(entries),
  },
  showState,
);

showState("connecting");
byId("drain-server").addEventListener("click", ({ target }) => {
  controls.act("drain", { server: target.dataset.server }, `Drain ${target.dataset.server}? It finishes what it has and takes nothing new.`);
});
