// Queries, as the commands and the API take them: `team:web outcome:denied since:7d`.

import { querystring } from "./api.js";

const PARTS = new Set(["model", "asked", "agent", "reason"]); // words that find parts of names
const TIMES = ["since", "until", "during"];
const TOKEN = /(?:"(?:[^"\\]|\\.)*"|\S)+/gsu;
const WORD = /^([a-z_]+):/iu;
const PLAIN = /^[\w.@/+-]+$/u;
const AGE = /^\d+[mhdw]$|^now$/u;

/** The ranges of time that a view offers, by their part of a query. */
export const RANGES = [
  ["since:1h", "Last hour"], ["since:today", "Today"], ["during:yesterday", "Yesterday"], ["since:7d", "7 days"], ["since:30d", "30 days"], ["", "All"],
];

/** Return the part of a query that finds exactly the calls with this name, or with none. */
export function word(name, value) {
  const whole = PLAIN.test(value) ? value : `"${value.replace(/[\\"]/gu, "\\$&")}"`;
  return `${name}:${PARTS.has(name) ? "=" : ""}${whole}`;
}

/** Return the words of a query, each with its value; words that are not understood are kept for the gateway to refuse. */
export function words(query) {
  const found = [];
  for (const [token] of query.matchAll(TOKEN)) {
    if (WORD.test(token) || found.length === 0) found.push(token);
    else found[found.length - 1] += ` ${token}`;
  }
  return found;
}

const nameOf = (part) => WORD.exec(part)?.[1] ?? "";

/** Return a query with other parts; a part replaces what the query says with the same word, and times replace times. */
export function withParts(query, ...parts) {
  const given = parts.filter(Boolean);
  const replaced = new Set(given.map(nameOf));
  if (TIMES.some((name) => replaced.has(name))) TIMES.forEach((name) => replaced.add(name));
  return [...words(query).filter((part) => !replaced.has(nameOf(part))), ...given].join(" ");
}

/** Return a query with another range of time, one of RANGES. */
export const withRange = (query, range) => withParts(words(query).filter((part) => !TIMES.includes(nameOf(part))).join(" "), range);

/** Return the range of time of a query, if it is one of RANGES. */
export function rangeOf(query) {
  return words(query).filter((part) => TIMES.includes(nameOf(part))).join(" ");
}

const localZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Return the query to send: times that depend on a zone are in the browser's, unless the query names one. `days` tells that days or hours are listed. */
export function zoned(query, days = false) {
  const parts = words(query);
  const dated = parts.some((part) => TIMES.includes(nameOf(part)) && !AGE.test(part.slice(part.indexOf(":") + 1)));
  const zone = localZone();
  if (!(dated || days) || !zone || zone === "UTC" || parts.some((part) => nameOf(part) === "zone")) return query;
  return withParts(query, `zone:${zone}`);
}

/** Return the part of a query for an hour or a day of a report. */
export function during(unit, text) {
  if (unit === "day") return `during:${text}`;
  const hour = Number(text.slice(11, 13));
  const end = hour === 23 ? "00:00" : `${String(hour + 1).padStart(2, "0")}:00`;
  return `during:"${text} to ${end}"`;
}

/** Return the address of the list of calls of a query. */
export const callsAddress = (query) => `#/calls${querystring({ q: query })}`;
