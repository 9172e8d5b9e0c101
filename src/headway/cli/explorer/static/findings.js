// What the checker found, errors first, with the shortest path to each.
import { h } from "./dom.js";

export function showFindings(place, count, report) {
  if (report.error) {
    place.replaceChildren(h("div", { class: "findings" }, h("p", { class: "note" }, report.error.message)));
    return;
  }
  const { findings = [], accepted = [], invariants = [] } = report;
  const errors = findings.filter((finding) => finding.severity === "error").length;
  count.textContent = findings.length || "✓";
  count.className = `count ${errors ? "error" : findings.length ? "warning" : "fine"}`;
  place.replaceChildren(
    h("div", { class: "findings" },
      h("p", { class: "empty" }, summary(report, findings, errors)),
      findings.map((finding) => entry(finding, finding.severity)),
      invariants.filter(({ verdict }) => verdict !== "refuted").map(invariant),
      accepted.map(({ finding, because }) => entry(finding, "accepted", because))),
  );
}

function summary(report, findings, errors) {
  const looked = `${report.configurations ?? 0} configurations explored${report.complete === false ? ", more remain" : ", all there are"}`;
  const warnings = findings.length - errors;
  const found = findings.length ? `${errors} ${errors === 1 ? "error" : "errors"}, ${warnings} ${warnings === 1 ? "warning" : "warnings"}` : "Nothing to complain about";
  return `${found} · ${looked}.`;
}

function entry(finding, kind, because) {
  const place = [...new Set([finding.transition, finding.state].filter(Boolean))].join(" of ");
  return h("article", { class: `finding ${kind}` },
    h("h3", {}, h("span", { class: "sev" }, kind), finding.id, place && h("span", { class: "tag" }, place)),
    h("p", {}, finding.message),
    because && h("p", {}, `Accepted: ${because}`),
    finding.path?.length > 0 && h("p", { class: "path" }, `Path: ${finding.path.join(" → ")}`));
}

// A refuted one stands among the findings, with its counter-example.
function invariant({ promise, verdict }) {
  return h("article", { class: `finding ${verdict === "proved" ? "fine" : "warning"}` },
    h("h3", {}, h("span", { class: "sev" }, verdict), "invariant"), h("p", {}, promise));
}
