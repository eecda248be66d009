// Elements, and how shown ones take the place of earlier ones. Text is always set as text; nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";
/** What a person has changed stays: whether details are open. */
const KEPT = new Set(["open"]);

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function drawing(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Show these nodes in a parent. Nodes that are alike stay in place, so focus, selection and scrolling are kept. */
export function show(parent, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child !== null && child !== undefined);
  wanted.forEach((node, index) => place(parent, index, node));
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
}

function place(parent, index, child) {
  const node = typeof child === "string" ? document.createTextNode(child) : child;
  const existing = parent.childNodes[index];
  if (existing === undefined) parent.append(node);
  else if (existing.nodeName !== node.nodeName) existing.replaceWith(node);
  else if (node.nodeType === Node.TEXT_NODE) setText(existing, node.data);
  else refresh(existing, node);
}

function refresh(existing, node) {
  for (const { name } of [...existing.attributes]) {
    if (!node.hasAttribute(name) && !KEPT.has(name)) existing.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (existing.getAttribute(name) !== value) existing.setAttribute(name, value);
  }
  show(existing, ...node.childNodes);
}

function setText(existing, text) {
  if (existing.data !== text) existing.data = text;
}
