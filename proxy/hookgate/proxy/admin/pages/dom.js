// Creates elements from plain values. Outside data only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are invisible, or change the direction of text. They must be made visible.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Return the text with invisible characters replaced with their codes, such as ⟨U+202E⟩. */
export function visible(text) {
  return String(text).replace(UNSEEN, (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Create an element. `on` contains listeners, `data` data attributes; other properties are attributes. */
export function el(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

/** Create an SVG element in the same way. */
export function svg(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

/** Replace the children of an element. */
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
