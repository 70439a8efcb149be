// Tables that become cards where there is little room. Roles are spelt out: as cards they are no tables to browsers.

import { el } from "./dom.js";

/**
 * A table. `columns` are {title, cell(row), numeric?, wide?, brief?}: what is `brief` needs no title on a card; `caption` is for those who do not see it.
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

/** One row. */
export function row(columns, value, properties = {}) {
  return el("tr", { role: "row", ...properties }, columns.map((column) =>
    el("td", { role: "cell", class: classes(column), data: { label: column.title } },
      el("div", { class: "cell" }, column.cell(value)))));
}

function classes(column) {
  return [column.numeric && "number", column.wide && "wide", column.brief && "brief"].filter(Boolean).join(" ") || null;
}
