// Formats numbers and times.

const TIME = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short",
});
const SHORT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const COUNT = new Intl.NumberFormat();
const COST = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });

export const count = (value) => COUNT.format(value ?? 0);

export const clock = (at) => SHORT.format(at);

/** Format a time with its date and time zone. */
export const when = (at) => TIME.format(at);

/** Format milliseconds with a useful number of digits. */
export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1000) return `${(value / 1000).toFixed(value >= 10_000 ? 1 : 2)} s`;
  if (value >= 100) return `${Math.round(value)} ms`;
  return `${value.toFixed(value >= 10 ? 1 : 2)} ms`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10_000) return `${count(value)} B`;
  return value < 10_000_000 ? `${(value / 1000).toFixed(1)} kB` : `${(value / 1_000_000).toFixed(1)} MB`;
}

/** Format a cost, which is missing if the model has no price. */
export const cost = (value) => (value === null || value === undefined ? "–" : COST.format(value));

/** Format a count with its noun: `one call`, `2 calls`. */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
