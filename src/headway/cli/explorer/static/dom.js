// Elements from data: text is always text, never markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function pretty(value) {
  return JSON.stringify(value, null, 2);
}

// The value typed into an editor; says what is wrong with it beside the editor.
export function readJson(editor) {
  const text = editor.value.trim();
  try {
    const value = text === "" ? null : JSON.parse(text);
    editor.removeAttribute("aria-invalid");
    return { ok: true, value };
  } catch (error) {
    editor.setAttribute("aria-invalid", "true");
    editor.focus();
    return { ok: false, message: `This is not JSON: ${error.message}` };
  }
}

// Tabs as the ARIA practices describe them: arrows move, one tab stop.
export function tabs(list, onSelect = () => {}) {
  const all = [...list.querySelectorAll('[role="tab"]')];
  const select = (tab) => {
    for (const each of all) {
      const chosen = each === tab;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
      byId(each.getAttribute("aria-controls")).hidden = !chosen;
    }
    onSelect(tab.id);
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest('[role="tab"]');
    if (tab) select(tab);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus();
    select(next);
  });
}
