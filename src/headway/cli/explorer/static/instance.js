// The instance panel: where it stands, what can happen next, what has happened.
import { h, pretty, readJson, tabs } from "./dom.js";
import { lower } from "./records.js";

export function render(place, state, act) {
  const focused = document.activeElement?.dataset?.key;
  const scrolled = place.scrollTop;
  place.replaceChildren(...parts(state, act).filter(Boolean));
  const list = place.querySelector(".tabs");
  if (list) tabs(list, (id) => (state.lower = id.replace("tab-", "")));
  place.scrollTop = state.refusal || state.error ? 0 : scrolled;
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function parts(state, act) {
  const { chart, session } = state;
  const alert = alerts(state, act);
  if (!chart) return [alert];
  if (state.starting || !session) return [alert, chart.unbound.length ? null : starter(state, act)];
  return [alert, standing(state, act), session.ended ? null : actor(state, act), session.ended ? null : events(state, act),
    session.work.length ? work(state, act) : null, session.ended ? null : time(state, act), session.children ? children(state, act) : null,
    lower(state, act)];
}

function alerts({ refusal, error }, act) {
  if (!refusal && !error) return null;
  const title = error ? "That did not work" : `Refused: ${refusal.code.replaceAll("_", " ")}`;
  const close = h("button", { class: "link close", "aria-label": "Dismiss", onclick: () => act.update({ refusal: null, error: null }) }, "×");
  const objections = (refusal?.objections ?? []).filter((each) => !refusal.message.includes(each.reason));
  return h("div", { class: "alert", role: "alert" },
    h("h2", {}, title, close),
    h("p", {}, (error ?? refusal).message),
    objections.length > 0 && h("ul", {}, objections.map((each) => h("li", {}, `${each.transition}: ${each.reason}`))),
    refusal?.allowed?.length > 0 && h("p", {}, "Possible now: ", refusal.allowed.map((each) => `${each.event}${each.by?.length ? ` (${each.by.join(", ")})` : ""}`).join(" · ")));
}

function starter(state, act) {
  const { chart } = state;
  const context = h("textarea", { rows: 10, spellcheck: "false", "aria-label": "Context as JSON" });
  context.value = state.drafts.get("context") ?? pretty(state.session?.context ?? chart.context ?? {});
  const begin = () => {
    const read = readJson(context);
    if (!read.ok) return act.fail(read.message);
    state.drafts.set("context", context.value);
    return act.start(read.value ?? {}, state.session?.facts);
  };
  return h("section", { class: "card" },
    h("h2", {}, "New instance"),
    h("div", { class: "editor" },
      h("p", { class: "about" }, chart.context_type ? `It starts with a ${chart.context_type}:` : "It starts with any values:"),
      context,
      h("div", { class: "row" },
        h("button", { class: "main", onclick: begin }, "Start"),
        state.session && h("button", { onclick: () => act.update({ starting: false, error: null }) }, "Cancel"))));
}

function standing(state, act) {
  const { session } = state;
  const outer = session.active.filter((id) => !session.states.includes(id));
  const about = session.about.filter((each) => session.states.includes(each.id) && each.meaning).map((each) => each.meaning);
  const why = session.why.text.split("\n").slice(1).filter((line) => !line.startsWith("At ")).map(readable);
  return h("section", { class: `card ${session.ended ? "ended" : session.why.stuck ? "stuck" : ""}`, "aria-live": "polite" },
    h("h2", {}, session.ended ? "Ended in" : session.why.stuck ? "Stuck in" : "Now in",
      h("span", { class: "row" },
        h("button", { class: "small", "data-key": "back", disabled: !session.can_go_back, onclick: () => act.send("back") }, "↶ Back"),
        h("button", { class: "small", "data-key": "new", onclick: () => act.update({ starting: true }) }, "New instance"))),
    h("div", { class: "now-in" },
      outer.length > 0 && h("span", { class: "within" }, `${outer.join(" › ")} ›`),
      session.states.map((id) => h("span", { class: "pill" }, id))),
    about.length > 0 && h("p", { class: "about" }, about.join("; ")),
    typeof session.progress === "number" && h("progress", { max: 100, value: session.progress, "aria-label": `${Math.round(session.progress)} percent` }),
    session.output !== null && session.output !== undefined && h("pre", { class: "data" }, pretty(session.output)),
    why.length > 0 && h("details", { class: "why", open: !state.open.has("why-closed"), ontoggle: (event) => state.open[event.target.open ? "delete" : "add"]("why-closed") },
      h("summary", {}, "Why is it here?"), h("ul", {}, why.map((line) => h("li", {}, line)))));
}

// A moment in a sentence, as people read it.
const readable = (line) => line.replace(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)[\d.]*\+00:00/g, "$1 $2");

function defaultActor(state) {
  const roles = state.chart.roles;
  const first = state.session.events.flatMap((event) => event.by)[0] ?? roles[0] ?? "";
  return actorOf(first);
}

const actorOf = (role) => ({ role, id: role === "" ? "someone" : role === "system" ? "system" : `${role}-1`, kind: role === "system" ? "system" : "person" });

function actor(state, act) {
  state.actor ??= defaultActor(state);
  const { actor } = state;
  const roles = ["", ...state.chart.roles];
  const pick = (event) => act.update({ actor: actorOf(event.target.value) });
  const option = (value, chosen, label = value) => h("option", { value, selected: value === chosen }, label);
  return h("section", { class: "card" },
    h("h2", {}, "Act as"),
    h("div", { class: "fields" },
      h("label", {}, "Role", h("select", { "data-key": "role", onchange: pick }, roles.map((role) => option(role, actor.role, role || "no role")))),
      h("label", {}, "Who", h("input", { "data-key": "who", value: actor.id, maxlength: 200, oninput: (event) => (actor.id = event.target.value) })),
      h("label", {}, "Kind", h("select", { "data-key": "kind", onchange: (event) => (actor.kind = event.target.value) },
        ["person", "agent", "service", "system"].map((kind) => option(kind, actor.kind))))));
}

const sender = ({ actor }) => ({ id: actor.id, kind: actor.kind, roles: actor.role ? [actor.role] : [] });

function events(state, act) {
  const { session } = state;
  const offered = session.events.map((event) => (/[*]/.test(event.event) ? null : offer(event, state, act)));
  const doubts = state.chart.facts.length > 0 && session.events.some((event) => event.ways.some((way) => way.says_no.length));
  return h("section", { class: "card" },
    h("h2", {}, "What can happen"),
    h("div", { class: "items" },
      offered.filter(Boolean).length ? offered : h("p", { class: "empty" }, "Nobody can send anything here."),
      doubts && h("p", { class: "hint" }, "Guards of this chart read facts. ",
        h("button", { class: "link", onclick: () => { act.update({ lower: "facts" }); document.getElementById("panel-facts").scrollIntoView({ block: "center" }); } }, "Set the facts")),
      h("div", { class: "item" }, anyEvent(state, act))));
}

function offer(event, state, act) {
  const mine = event.by.length === 0 || event.by.includes(state.actor.role);
  const ways = event.ways;
  const targets = [...new Set(ways.map((way) => way.targets.join(" + ") || "stays"))].join(" or ");
  const notes = [...new Set(ways.flatMap((way) => [way.meaning, ...way.duties, ...way.votes.map((vote) => `voted: ${vote}`)]).filter(Boolean))];
  const says = [...new Set(ways.flatMap((way) => way.says_no))];
  const key = `event:${event.event}`;
  const open = event.takes && state.open.has(key);
  const send = (data) => act.send("events", { event: event.sends, data, by: sender(state), ref: event.ref });
  const press = () => {
    if (!event.takes) return send(null);
    state.open[open ? "delete" : "add"](key);
    return act.update({});
  };
  return h("div", { class: "item" },
    h("div", { class: "row" },
      h("button", { class: mine && says.length === 0 ? "main" : "off", "data-key": key, "aria-expanded": event.takes ? String(Boolean(open)) : null, onclick: press },
        event.sends === "answer" ? `answer ${event.event.slice(7)}` : event.event, event.takes ? " …" : ""),
      h("span", { class: "goes grow" }, `→ ${targets}`)),
    h("div", { class: "row" },
      event.by.map((role) => h("button", { class: `chip ${role === state.actor.role ? "mine" : ""}`, title: `Act as ${role}`, onclick: () => act.update({ actor: actorOf(role) }) }, role)),
      event.by.length === 0 && h("span", { class: "hint" }, "anyone"),
      notes.length > 0 && h("span", { class: "hint" }, notes.join(" · "))),
    says.map((reason) => h("p", { class: "no" }, reason)),
    open && payload(event, key, state, act, send));
}

function payload(event, key, state, act, send) {
  const editor = h("textarea", { rows: 5, spellcheck: "false", "aria-label": `${event.takes} as JSON`, "data-key": `${key}:data`, oninput: (change) => state.drafts.set(key, change.target.value) });
  editor.value = state.drafts.get(key) ?? pretty(event.example ?? {});
  const submit = () => {
    const read = readJson(editor);
    return read.ok ? send(read.value) : act.fail(read.message);
  };
  return h("div", { class: "editor" },
    h("label", { class: "field" }, `Takes a ${event.takes}`, editor),
    h("div", { class: "row" }, h("button", { class: "main", "data-key": `${key}:send`, onclick: submit }, `Send ${event.sends}`)));
}

function anyEvent(state, act) {
  const name = h("input", { class: "grow", placeholder: "event name", "aria-label": "Event name", maxlength: 200, "data-key": "any:name" });
  const data = h("textarea", { rows: 2, placeholder: "payload as JSON, or nothing", "aria-label": "Payload as JSON", spellcheck: "false" });
  name.value = state.drafts.get("any:name") ?? "";
  data.value = state.drafts.get("any:data") ?? "";
  const send = () => {
    const read = readJson(data);
    if (!read.ok) return act.fail(read.message);
    state.drafts.set("any:name", name.value).set("any:data", data.value);
    return act.send("events", { event: name.value.trim(), data: read.value, by: sender(state) });
  };
  return h("details", { open: state.open.has("any"), ontoggle: (event) => state.open[event.target.open ? "add" : "delete"]("any") },
    h("summary", {}, "Send any event, to see what it gets"),
    h("div", { class: "editor" }, h("div", { class: "row" }, name, h("button", { onclick: send, "data-key": "any:send" }, "Send")), data));
}

function work(state, act) {
  return h("section", { class: "card" }, h("h2", {}, "Work"), h("div", { class: "items" }, state.session.work.map((each) => workItem(each, state, act))));
}

function workItem(item, state, act) {
  const key = `work:${item.state}`;
  const codes = h("select", { "aria-label": "Error code", "data-key": `${key}:code`, class: "grow", onchange: (event) => state.drafts.set(key, event.target.value) },
    item.codes.map((code) => h("option", { value: code, selected: code === state.drafts.get(key) }, code)));
  const result = h("textarea", { rows: 2, spellcheck: "false", placeholder: "result as JSON, or nothing", "aria-label": "Result as JSON", oninput: (event) => state.drafts.set(`${key}:result`, event.target.value) });
  result.value = state.drafts.get(`${key}:result`) ?? "";
  const finish = (outcome) => act.send("work", { work: item.id, ...outcome });
  const done = () => {
    const read = readJson(result);
    return read.ok ? finish({ outcome: "done", result: read.value }) : act.fail(read.message);
  };
  return h("div", { class: "item" },
    h("div", { class: "row" }, h("b", {}, item.handler), h("span", { class: "hint" }, `attempt ${item.attempt}${item.in ? `, starts in ${item.in}` : ""} · in ${item.state}`)),
    h("div", { class: "row" },
      h("button", { class: "main", "data-key": `${key}:done`, onclick: done }, "Done"),
      h("button", { "data-key": `${key}:half`, onclick: () => finish({ outcome: "progress", fraction: 0.5 }) }, "Half way")),
    h("div", { class: "row" },
      h("button", { class: "danger", "data-key": `${key}:fail`, onclick: () => finish({ outcome: "failed", code: codes.value }) }, "Fail with"), codes),
    h("details", {}, h("summary", {}, "Result"), result));
}

const spoken = ({ event, state }) => {
  const [kind, ...rest] = event.split(".");
  return kind === "after" ? rest.slice(1).join(".") : ["deadline", "remind", "escalate"].includes(kind) ? `${kind} of ${state}` : event;
};

function time(state, act) {
  const { session } = state;
  const by = h("input", { class: "grow", placeholder: "2h 30m", "aria-label": "Advance time by", "data-key": "time:by", size: 10, value: state.drafts.get("time") ?? "",
    oninput: (event) => state.drafts.set("time", event.target.value), onkeydown: (event) => event.key === "Enter" && advance(by.value) });
  const advance = (duration) => act.send("time", { by: duration });
  const quick = (duration) => h("button", { class: "small", "data-key": `time:${duration}`, onclick: () => advance(duration) }, `+${duration}`);
  return h("section", { class: "card" },
    h("h2", {}, "Time", h("time", { class: "clock", datetime: session.now }, session.now.slice(0, 19).replace("T", " ") + " UTC")),
    h("div", { class: "items" },
      session.timers.map((timer) => h("div", { class: "item" }, h("div", { class: "row" },
        h("span", { class: "grow" }, spoken(timer), h("span", { class: "hint" }, `  in ${timer.in}`)),
        h("button", { class: "small", "data-key": `timer:${timer.event}`, title: "Let time pass until it is due", onclick: () => act.send("time", { timer: timer.id }) }, "Fire")))),
      h("div", { class: "item" }, h("div", { class: "row" }, quick("1m"), quick("1h"), quick("1d"), by,
        h("button", { class: "small", "data-key": "time:advance", onclick: () => advance(by.value) }, "Advance")))));
}

function children(state, act) {
  const { charts, counts } = state.session.children;
  const statuses = Object.entries(counts ?? {});
  const before = h("select", { "aria-label": "From status", "data-key": "child:before" }, statuses.map(([status]) => h("option", { value: status }, status)));
  const after = h("input", { class: "grow", placeholder: "new status", "aria-label": "To status", "data-key": "child:after", value: state.drafts.get("child") ?? "", oninput: (event) => state.drafts.set("child", event.target.value) });
  const change = () => act.send("children", { before: before.value === "new" ? null : before.value, after: after.value.trim() || null });
  return h("section", { class: "card" },
    h("h2", {}, "Children", h("span", {}, charts.join(", "))),
    statuses.length === 0 ? h("p", { class: "empty" }, "None yet.") : h("div", { class: "items" },
      h("p", {}, statuses.map(([status, count]) => `${count} ${status}`).join(" · ")),
      h("div", { class: "row" }, "One goes from", before, "to", after, h("button", { class: "small", "data-key": "child:go", onclick: change }, "Go"))));
}
