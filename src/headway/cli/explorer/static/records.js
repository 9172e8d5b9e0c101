// What has happened and what is known: history, context, effects, facts.
import { h, pretty, readJson } from "./dom.js";

export function lower(state, act) {
  const { session, chart } = state;
  const panels = {
    history: ["History", history(session)],
    context: ["Context", data({ ...session.context }, session.counters)],
    effects: ["Effects", effects(session)],
    ...(chart.facts.length ? { facts: ["Facts", facts(state, act)] } : {}),
  };
  const chosen = panels[state.lower] ? state.lower : "history";
  return h("section", { class: "card" },
    h("div", { class: "tabs", role: "tablist", "aria-label": "Records" }, Object.entries(panels).map(([id, [label]]) =>
      h("button", { role: "tab", id: `tab-${id}`, "data-key": `tab-${id}`, "aria-controls": `panel-${id}`, "aria-selected": String(id === chosen), tabindex: id === chosen ? 0 : -1 }, label))),
    Object.entries(panels).map(([id, [, content]]) =>
      h("div", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, hidden: id !== chosen, class: "lower" }, content)));
}

function history(session) {
  return h("ol", { class: "history" }, [...session.history].reverse().map((row) => {
    const stayed = row.before.join() === row.after.join();
    const moved = row.before.length === 0 ? `begins in ${row.after.join(" + ")}` : stayed ? `stays in ${row.after.join(" + ")}` : `${row.before.join(" + ")} → ${row.after.join(" + ")}`;
    const name = row.transition || row.event;
    const by = [row.event !== name && row.event !== "start" ? row.event : "", row.actor, row.at.slice(0, 19).replace("T", " ")].filter(Boolean);
    return h("li", {}, h("b", {}, name), ` ${moved}`, h("small", {}, by.join(" · ")), row.reason && h("small", {}, row.reason));
  }));
}

function data(context, counters) {
  const counted = Object.keys(counters ?? {}).length > 0;
  return [h("pre", { class: "data" }, pretty(context)), counted && h("pre", { class: "data" }, `counters ${pretty(counters)}`)];
}

function effects(session) {
  if (!session.effects.length) return h("p", { class: "empty" }, "The last step asked nothing of the world.");
  return h("div", { class: "items" }, session.effects.map(({ do: deed, id, ...rest }) =>
    h("div", { class: "item" }, h("b", {}, deed.replaceAll("_", " ")), h("pre", { class: "data" }, pretty(rest)))));
}

function facts(state, act) {
  const editor = h("textarea", { rows: 6, spellcheck: "false", "aria-label": "Facts as JSON", "data-key": "facts", oninput: (event) => state.drafts.set("facts", event.target.value) });
  editor.value = state.drafts.get("facts") ?? pretty(state.session.facts);
  const apply = () => {
    const read = readJson(editor);
    if (!read.ok) return act.fail(read.message);
    state.drafts.delete("facts");
    return act.send("facts", { facts: read.value ?? {} }, "PUT");
  };
  return h("div", { class: "editor" },
    h("ul", {}, state.chart.facts.map((fact) => h("li", { class: "empty" }, fact.name, fact.meaning && `: ${fact.meaning}`))),
    editor, h("div", { class: "row" }, h("button", { onclick: apply, "data-key": "facts:apply" }, "Use these facts")));
}
