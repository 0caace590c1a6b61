"use strict";

// Numbers as text, and elements from text.

const data = JSON.parse(document.getElementById("data").textContent);
const NONE = "not certifiable";
const ANSWER = "answer";

const unique = (values) => [...new Set(values)];
const finite = (values) => values.filter((value) => value !== null);
// Not Math.min(...values): a long list would not fit among the arguments of a call.
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// All significant digits, trailing zeros too: for columns.
function number(value, digits = 3) {
  if (value === null) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1).replace("e+", "e")
    : size >= 10 ** (digits - 1) ? value.toFixed(0) : value.toPrecision(digits);
  return text.replaceAll("-", "−");
}

// For a number that stands alone.
const short = (value, digits = 3) => String(Number(value.toPrecision(digits))).replaceAll("-", "−");

// A bound is never shown below itself: the least number of so many digits that is not smaller.
function bound(value, digits = 3) {
  if (value === null) return number(null);
  const size = Math.max(value, 0);
  const nearest = Number(size.toPrecision(digits));
  const unit = size > 0 ? 10 ** (Math.floor(Math.log10(size)) - digits + 1) : 0;
  return number(nearest < size ? Number((nearest + unit).toPrecision(digits)) : nearest, digits);
}

// Of a single run there is none.
const deviation = (std) => (std === null ? "" : ` ± ${number(std, 2)}`);

// ---- the look of a method, from the one table of the library

const MARKS = {
  "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
  "s": "M-3.6-3.6H3.6V3.6H-3.6Z",
  "^": "M0-4.8L5 3.8H-5Z",
  "D": "M0-5L5 0L0 5L-5 0Z",
  "v": "M0 4.8L5-3.8H-5Z",
  "P": "M-1.7-4.8H1.7V-1.7H4.8V1.7H1.7V4.8H-1.7V1.7H-4.8V-1.7H-1.7Z",
  "X": "M-4.6-2.8L-2.8-4.6L0-1.8L2.8-4.6L4.6-2.8L1.8 0L4.6 2.8L2.8 4.6L0 1.8L-2.8 4.6L-4.6 2.8L-1.8 0Z",
  "p": "M0-5L4.8-1.5L2.9 4H-2.9L-4.8-1.5Z",
  "h": "M0-4.8L4.2-2.4V2.4L0 4.8L-4.2 2.4V-2.4Z",
  "<": "M-4.8 0L3.8-5V5Z",
  ">": "M4.8 0L-3.8-5V5Z",
  "*": "M0-5.5L1.3-1.8L5.2-1.7L2.1.7L3.2 4.4L0 2.2L-3.2 4.4L-2.1.7L-5.2-1.7L-1.3-1.8Z",
};
const WIDTH = 2;
const dashes = (look) => look.dash.map((length) => WIDTH * length).join(" ");

// Both colors, of which the page's theme takes one.
function painted(node, look) {
  node.classList.add("painted");
  node.style.setProperty("--light", look.color);
  node.style.setProperty("--dark", look.dark);
  return node;
}

function swatch(look) {
  const picture = svg("svg", { width: 42, height: 14, viewBox: "-21 -7 42 14", "aria-hidden": "true" },
    svg("path", { d: "M-20 0H20", stroke: "currentColor", "stroke-width": WIDTH, "stroke-dasharray": dashes(look) }),
    svg("path", { d: MARKS[look.marker], fill: "currentColor" }));
  return element("span", { class: "swatch" }, painted(picture, look));
}
