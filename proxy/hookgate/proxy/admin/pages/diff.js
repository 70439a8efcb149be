// The differences of two texts: by lines, and within changed lines by words. Pure.

const MOST_CELLS = 4_000_000;

/** Return the rows {left, right} of two texts side by side. A side is null or {text, words: [{text, changed}], changed}. */
export function compare(before, after) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) rows.push(pair(removed[at], added[at]));
    removed = [];
    added = [];
  };
  for (const step of steps(before.split("\n"), after.split("\n"))) {
    if (step.kind === "removed") removed.push(step.text);
    else if (step.kind === "added") added.push(step.text);
    else {
      flush();
      rows.push({ left: plain(step.text), right: plain(step.text) });
    }
  }
  flush();
  return rows;
}

/** Return the edits from one list to another: {kind: "same" | "removed" | "added", text}. */
export function steps(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < Math.min(before.length, after.length) - start
    && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const middle = between(before.slice(start, before.length - end), after.slice(start, after.length - end));
  const same = (items) => items.map((text) => ({ kind: "same", text }));
  return [...same(before.slice(0, start)), ...middle, ...same(before.slice(before.length - end))];
}

function between(before, after) {
  const removed = (items) => items.map((text) => ({ kind: "removed", text }));
  const added = (items) => items.map((text) => ({ kind: "added", text }));
  // Texts that are too large to be compared quickly are shown as replaced.
  if (before.length * after.length > MOST_CELLS) return [...removed(before), ...added(after)];
  const common = lengths(before, after);
  const found = [];
  let left = 0;
  let right = 0;
  const width = after.length + 1;
  while (left < before.length && right < after.length) {
    if (before[left] === after[right]) {
      found.push({ kind: "same", text: before[left] });
      left += 1;
      right += 1;
    } else if (common[(left + 1) * width + right] >= common[left * width + right + 1]) {
      found.push(...removed([before[left]]));
      left += 1;
    } else {
      found.push(...added([after[right]]));
      right += 1;
    }
  }
  return [...found, ...removed(before.slice(left)), ...added(after.slice(right))];
}

/** Return the number of items that two lists have in common from each pair of indexes on. */
function lengths(before, after) {
  const width = after.length + 1;
  const found = new Uint32Array((before.length + 1) * width);
  for (let left = before.length - 1; left >= 0; left -= 1) {
    for (let right = after.length - 1; right >= 0; right -= 1) {
      const at = left * width + right;
      found[at] = before[left] === after[right]
        ? found[at + width + 1] + 1
        : Math.max(found[at + width], found[at + 1]);
    }
  }
  return found;
}

const plain = (text) => ({ text, changed: false, words: [{ text, changed: false }] });

function pair(left, right) {
  const whole = (text) => (text === undefined ? null : { text, changed: true, words: [{ text, changed: false }] });
  if (left === undefined || right === undefined) return { left: whole(left), right: whole(right) };
  const found = steps(words(left), words(right));
  const side = (text, kind) => ({
    text,
    changed: true,
    words: joined(found.filter((step) => step.kind === "same" || step.kind === kind)),
  });
  return { left: side(left, "removed"), right: side(right, "added") };
}

const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

function joined(found) {
  const parts = [];
  for (const { kind, text } of found) {
    const changed = kind !== "same";
    const last = parts[parts.length - 1];
    if (last && last.changed === changed) last.text += text;
    else parts.push({ text, changed });
  }
  return parts;
}
