// Elements out of plain values. Whatever comes from outside becomes a text node, and nothing else.

const SVG = "http://www.w3.org/2000/svg";

// Signs that are not seen, or turn the direction of what follows: a reader has to see that they are there.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** The text with unseen signs spelt out, such as ⟨U+202E⟩. */
export function visible(text) {
  return String(text).replace(UNSEEN, (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** An element: `on` holds listeners, `data` data-attributes; other properties are attributes. */
export function el(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

/** The same for a part of a drawing. */
export function svg(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

/** Put these in the place of all that is in an element. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "data") {
      for (const [key, each] of Object.entries(value)) node.dataset[key] = each;
    } else {
      node.setAttribute(name, value === true ? "" : visible(value));
    }
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}
