// The drawn chart: fetched as SVG for the active states, fitted, zoomed.
import { h } from "./dom.js";

const drawings = new Map();
const SMALLEST = 0.62; // below this the words on the arrows cannot be read: scroll instead
let wanted = "";
let factor = null;

export async function showDrawing(place, slug, active, marks) {
  const query = new URLSearchParams(active.map((state) => ["active", state]));
  const address = `/api/charts/${slug}/drawing?${query}`;
  if (address === wanted) return;
  wanted = address;
  const drawn = drawings.get(address) ?? (await load(address));
  if (wanted !== address) return;
  if (drawn.svg) {
    drawings.set(address, drawn);
    place.replaceChildren(drawn.svg);
    fit(place);
    reveal(place, marks);
  } else {
    place.replaceChildren(fallback(drawn.message));
  }
}

async function load(address) {
  try {
    const response = await fetch(address);
    if (!response.ok) return { message: (await response.json()).error.message };
    const svg = new DOMParser().parseFromString(await response.text(), "image/svg+xml").documentElement;
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "The chart as a drawing; the tabs States and Transitions say the same in words");
    return { svg: document.importNode(svg, true) };
  } catch {
    return { message: "The drawing could not be loaded." };
  }
}

// Without Graphviz the states are listed instead, the active ones marked.
function fallback(message) {
  const states = document.querySelector("#panel-states > ul").cloneNode(true);
  return h("div", { class: "fallback" }, h("p", { class: "note" }, message), states);
}

export function zoom(place, by) {
  const svg = place.querySelector("svg");
  if (!svg) return;
  factor = by === null ? "fit" : Math.min(4, Math.max(0.15, scaleOf(svg) * by));
  fit(place);
}

const scaleOf = (svg) => svg.clientWidth / svg.viewBox.baseVal.width;

function fit(place) {
  const svg = place.querySelector("svg");
  const { width, height } = svg.viewBox.baseVal;
  const inside = Math.min((place.clientWidth - 24) / width, (place.clientHeight - 24) / height);
  const scale = factor === "fit" ? inside : (factor ?? Math.min(1.35, Math.max(SMALLEST, inside)));
  svg.setAttribute("width", width * scale);
  svg.setAttribute("height", height * scale);
}

// In a drawing larger than its frame, the active states come into sight.
function reveal(place, marks) {
  const mark = marks.map((id) => place.querySelector(`#${id}`)).filter(Boolean).at(-1);
  if (!mark) return;
  const frame = place.getBoundingClientRect();
  const box = mark.getBoundingClientRect();
  if (box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom) return;
  place.scrollBy(box.left + box.width / 2 - frame.left - frame.width / 2, box.top + box.height / 2 - frame.top - frame.height / 2);
}

addEventListener("resize", () => {
  const place = document.getElementById("drawing");
  if (place.querySelector("svg")) fit(place);
});
