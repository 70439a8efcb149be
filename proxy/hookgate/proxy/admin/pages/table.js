// Tables that become cards on narrow screens. They have explicit roles, because browsers do not treat cards as tables.

import { el } from "./dom.js";

/**
 * Return a table. `columns` are {title, cell(row), numeric?, wide?, brief?}. A `brief` cell has no title on a card. `caption` is for screen readers.
 * Rows can be added at either end with `row`.
 */
export function table(caption, columns, rows, about = () => ({})) {
  const head = el("tr", { role: "row" }, columns.map((column) =>
    el("th", { role: "columnheader", scope: "col", class: column.numeric ? "number" : null }, column.title)));
  const body = el("tbody", { role: "rowgroup" }, rows.map((each) => row(columns, each, about(each))));
  return el("div", { class: "scroll" },
    el("table", { role: "table" },
      el("caption", { class: "hidden" }, caption),
      el("thead", { role: "rowgroup" }, head),
      body));
}

/** Return one row. */
export function row(columns, value, properties = {}) {
  return el("tr", { role: "row", ...properties }, columns.map((column) =>
    el("td", { role: "cell", class: classes(column), data: { label: column.title } },
      el("div", { class: "cell" }, column.cell(value)))));
}

function classes(column) {
  return [column.numeric && "number", column.wide && "wide", column.brief && "brief"].filter(Boolean).join(" ") || null;
}
