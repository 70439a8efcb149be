// Charts as SVG, each with a table of the same numbers and a line about the step under the pointer.

import { el, fill, svg } from "./dom.js";

const HEIGHT = 150;
const EDGE = { top: 8, right: 4, bottom: 22, left: 48 };

/**
 * Return a chart of steps over time. `kinds` are {name, title, of(step), shape: "bars" | "line"}; bars are stacked.
 * `said(value)` formats a value, `clock(step)` a step's time. If `whole` is set, values are integers.
 */
export function chart({ title, summary, steps, kinds, said, clock, whole = false }) {
  const drawing = el("div", { class: "drawing" });
  const readout = el("p", { class: "readout", "aria-hidden": "true" }, summary);
  const pointed = (step) => {
    fill(readout, step ? `${clock(step)}: ${kinds.map((kind) => `${kind.title} ${said(kind.of(step))}`).join(", ")}` : summary);
  };
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now === width || now < 80) return;
    width = now;
    fill(drawing, draw({ title, summary, steps, kinds, said, clock, whole, width, pointed }));
  });
  observer.observe(drawing);
  return el("figure", { class: "chart" },
    el("figcaption", {}, el("h2", {}, title), legend(kinds)),
    drawing, readout, numbers(title, steps, kinds, said, clock));
}

function legend(kinds) {
  return el("ul", { class: "legend" }, kinds.map((kind) =>
    el("li", {}, svg("svg", { class: "key", width: 18, height: 10, "aria-hidden": "true" },
      kind.shape === "line"
        ? svg("path", { d: "M1 5H17", class: `stroke ${kind.name}` })
        : svg("rect", { x: 1, y: 1, width: 16, height: 8, class: `area ${kind.name}` })), kind.title)));
}

function draw({ title, summary, steps, kinds, said, clock, whole, width, pointed }) {
  const room = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const bars = kinds.filter((kind) => kind.shape === "bars");
  const stacked = (step) => bars.reduce((sum, kind) => sum + (kind.of(step) ?? 0), 0);
  const single = (step) => Math.max(0, ...kinds.map((kind) => kind.of(step) ?? 0));
  const most = nice(Math.max(1, ...steps.map((step) => Math.max(stacked(step), single(step)))));
  const across = room.width / steps.length;
  const x = (at) => EDGE.left + at * across;
  const y = (value) => EDGE.top + room.height * (1 - value / most);
  const node = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": `${title}. ${summary}` },
    grid(most, y, width, said, whole), hours(steps, x, clock, room.width),
    steps.map((step, at) => stack(step, bars, x(at), across, y)),
    kinds.filter((kind) => kind.shape === "line").map((kind) => curve(kind, steps, (at) => x(at) + across / 2, y)));
  node.addEventListener("pointermove", (event) => pointed(steps[Math.floor((event.offsetX - EDGE.left) / across)]));
  node.addEventListener("pointerleave", () => pointed(null));
  return node;
}

function stack(step, bars, left, across, y) {
  let below = 0;
  return bars.map((kind) => {
    const value = kind.of(step) ?? 0;
    if (value === 0) return null;
    const top = y(below + value);
    const bottom = y(below);
    below += value;
    const gap = across > 4 ? 1 : 0;
    return svg("rect", { x: left + gap / 2, y: top, width: across - gap, height: Math.max(1, bottom - top), class: `area ${kind.name}` });
  });
}

/** Return a line through the steps that have a value. A single step is a dot. */
function curve(kind, steps, x, y) {
  const runs = [];
  steps.forEach((step, at) => {
    const value = kind.of(step);
    if (value === null || value === undefined) return;
    const last = runs[runs.length - 1];
    if (last && last.end === at - 1) {
      last.points.push([x(at), y(value)]);
      last.end = at;
    } else runs.push({ end: at, points: [[x(at), y(value)]] });
  });
  return runs.map(({ points }) => (points.length === 1
    ? svg("circle", { cx: points[0][0], cy: points[0][1], r: 2, class: `dot ${kind.name}` })
    : svg("path", { d: `M${points.map((point) => point.map((each) => each.toFixed(1)).join(" ")).join("L")}`, class: `stroke ${kind.name}` })));
}

function grid(most, y, width, said, whole) {
  const values = [0, most / 2, most].filter((value) => !whole || Number.isInteger(value));
  return values.map((value) => [
    svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value), class: "grid" }),
    svg("text", { x: EDGE.left - 6, y: y(value) + 4, class: "tick end" }, said(value)),
  ]);
}

function hours(steps, x, clock, width) {
  const every = Math.ceil(steps.length / Math.max(2, Math.floor(width / 80)));
  return steps.map((step, at) => (at % every === 0
    ? svg("text", { x: x(at), y: HEIGHT - 5, class: "tick" }, clock(step))
    : null));
}

/** Return the next number that is easy to read, as is its half. */
function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 10].map((each) => each * size).find((each) => each >= value);
}

function numbers(title, steps, kinds, said, clock) {
  const details = el("details", { class: "numbers" }, el("summary", {}, `${title} as a table`));
  const told = () => {
    if (!details.open || details.querySelector("table")) return;
    const busy = steps.filter((step) => kinds.some((kind) => kind.of(step)));
    details.append(busy.length === 0 ? el("p", { class: "muted" }, "Nothing in this time.") : el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      el("table", { class: "plain" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "from"), kinds.map((kind) => el("th", { scope: "col", class: "number" }, kind.title)))),
        el("tbody", {}, busy.map((step) => el("tr", {}, el("th", { scope: "row" }, clock(step)),
          kinds.map((kind) => el("td", { class: "number" }, said(kind.of(step))))))))));
  };
  details.addEventListener("toggle", told);
  return details;
}
