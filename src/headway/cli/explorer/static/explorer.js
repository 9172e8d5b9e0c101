// The page of one chart: its drawing, its findings, and an instance to step.
import { byId, h, tabs } from "./dom.js";
import { showDrawing, zoom } from "./drawing.js";
import { showFindings } from "./findings.js";
import { render } from "./instance.js";

const slug = document.body.dataset.chart;
const remembered = `headway:${slug}`;
const state = {
  chart: null,
  session: null,
  refusal: null,
  error: null,
  actor: null,
  drafts: new Map(),
  open: new Set(),
  starting: false,
  lower: "history",
};

async function call(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  try {
    const response = await fetch(`/api${path}`, options);
    return { status: response.status, body: response.status === 204 ? {} : await response.json() };
  } catch {
    return { status: 0, body: { error: { code: "gone", message: "The explorer does not answer: is it still running?" } } };
  }
}

// Take an answer in: a new state, a refusal, or an error; each is shown.
function take({ body }) {
  state.error = body.error ?? null;
  state.refusal = body.refusal ?? null;
  if (body.error?.code === "session") {
    state.session = null;
    state.starting = true;
  }
  if (body.session) {
    state.session = body.session;
    state.starting = false;
    sessionStorage.setItem(remembered, body.session.id);
  }
  show();
}

const act = {
  async send(path, body, method = "POST") {
    take(await call(method, `/sessions/${state.session.id}/${path}`, body));
  },
  async start(context, facts) {
    state.drafts.clear();
    take(await call("POST", "/sessions", { chart: slug, context, facts }));
  },
  fail(message) {
    state.refusal = null;
    state.error = { code: "input", message };
    show();
  },
  update(change) {
    Object.assign(state, change);
    show();
  },
};

function show() {
  render(byId("instance"), state, act);
  const active = state.session?.active ?? [];
  markActive(active);
  showDrawing(byId("drawing"), slug, active, state.session?.marks ?? []);
}

function markActive(active) {
  const ids = new Set(active);
  for (const item of document.querySelectorAll("[data-state]")) item.classList.toggle("active", ids.has(item.dataset.state));
  for (const row of document.querySelectorAll("[data-source]")) row.classList.toggle("active", ids.has(row.dataset.source));
}

async function begin() {
  const chart = await call("GET", `/charts/${slug}`);
  if (chart.body.error) return act.fail(chart.body.error.message);
  state.chart = chart.body;
  const kept = sessionStorage.getItem(remembered);
  const known = kept ? await call("GET", `/sessions/${kept}`) : null;
  if (known?.body.session) take(known);
  else if (state.chart.unbound.length) {
    state.error = { code: "unbound", message: `This chart can be looked at, not stepped: nothing is registered for ${state.chart.unbound.join(", ")}.` };
    show();
  } else {
    take(await call("POST", "/sessions", { chart: slug }));
    if (!state.session) act.update({ starting: true });
  }
}

function filterCharts(event) {
  const wanted = event.target.value.toLowerCase();
  for (const item of byId("chart-list").children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

async function check() {
  const report = await call("GET", `/charts/${slug}/check`);
  showFindings(byId("panel-findings"), byId("finding-count"), report.body);
}

byId("filter").addEventListener("input", filterCharts);
byId("zoom-in").addEventListener("click", () => zoom(byId("drawing"), 1.25));
byId("zoom-out").addEventListener("click", () => zoom(byId("drawing"), 0.8));
byId("zoom-fit").addEventListener("click", () => zoom(byId("drawing"), null));
tabs(document.querySelector("main .tabs"));
byId("panel-findings").append(h("p", { class: "findings empty" }, "Checking …"));
begin();
check();
