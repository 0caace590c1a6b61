// What a reader does with a chart: a drag zooms, a double click shows all, and keys do the same and read the points.

function listen(node) {
  node.addEventListener("pointerdown", (event) => beginDrag(node, event));
  node.addEventListener("pointermove", (event) => event.pointerType === "mouse" && readAt(node, event.offsetX));
  node.addEventListener("pointerleave", () => closeTip(node));
  node.addEventListener("dblclick", () => showAll(node));
  node.addEventListener("focusout", () => closeTip(node));
  node.addEventListener("keydown", (event) => pressKey(node, event));
  new ResizeObserver(() => node.spec && render(node)).observe(node);
}

function zoomTo(node, view) {
  node.view = view;
  render(node);
}

const showAll = (node) => zoomTo(node, null);

function zoomBy(node, factor) {
  const { x, y, clip, view } = node.parts;
  const middle = node.cursor ?? x.value(clip.x + clip.width / 2);
  const height = y.value(clip.y + clip.height / 2);
  zoomTo(node, { x: x.zoomed(factor, Math.min(Math.max(middle, view.x[0]), view.x[1])), y: y.zoomed(factor, height) });
}

function pressKey(node, event) {
  const actions = {
    "+": () => zoomBy(node, 0.5), "=": () => zoomBy(node, 0.5), "-": () => zoomBy(node, 2),
    "0": () => showAll(node), "Escape": () => showAll(node),
    "ArrowLeft": () => step(node, -1), "ArrowRight": () => step(node, 1),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

// ---- zooming by a drag; a finger scrolls the page and has the buttons

function beginDrag(node, event) {
  if (event.pointerType !== "mouse" || event.button !== 0) return;
  const { x, y, clip, picture } = node.parts;
  const origin = picture.getBoundingClientRect();
  const inside = (at) => [
    Math.min(Math.max(at.clientX - origin.x, clip.x), clip.x + clip.width),
    Math.min(Math.max(at.clientY - origin.y, clip.y), clip.y + clip.height),
  ];
  const from = inside(event);
  const frame = svg("rect", { class: "drag" });
  picture.append(frame);
  const corners = (at) => {
    const to = inside(at);
    return [0, 1].map((i) => [Math.min(from[i], to[i]), Math.max(from[i], to[i])]);
  };
  const move = (at) => {
    const [[left, right], [top, bottom]] = corners(at);
    for (const [name, value] of Object.entries({ x: left, y: top, width: right - left, height: bottom - top })) {
      frame.setAttribute(name, value);
    }
  };
  const end = (at) => {
    removeEventListener("pointermove", move);
    frame.remove();
    const [[left, right], [top, bottom]] = corners(at);
    if (right - left < 6 && bottom - top < 6) return;  // a click
    const all = node.parts.view;
    zoomTo(node, {
      x: right - left < 6 ? all.x : [x.value(left), x.value(right)],
      y: bottom - top < 6 ? all.y : [y.value(bottom), y.value(top)],
    });
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end, { once: true });
}

// ---- reading

const stops = ({ spec, parts }) => unique(spec.series.flatMap((one) => finite(one.x)))
  .filter((at) => at >= parts.view.x[0] && at <= parts.view.x[1]).sort((a, b) => a - b);

function readAt(node, place) {
  const at = node.parts.x.value(place);
  const all = stops(node);
  if (all.length) showTip(node, all.reduce((best, stop) => (Math.abs(stop - at) < Math.abs(best - at) ? stop : best)));
}

function step(node, by) {
  const all = stops(node);
  if (!all.length) return;
  const now = node.cursor === undefined ? (by > 0 ? -1 : all.length) : all.findIndex((stop) => stop >= node.cursor);
  showTip(node, all[Math.min(Math.max((now < 0 && node.cursor !== undefined ? all.length : now) + by, 0), all.length - 1)]);
}

// At each series the point nearest to here, but none where it has ended.
function nearest(one, at) {
  const known = one.x.map((value, i) => [Math.abs(value - at), i]).filter(([, i]) => one.x[i] !== null && one.y[i] !== null);
  const [distance, i] = known.reduce((best, next) => (next[0] < best[0] ? next : best), [Infinity, -1]);
  const spacing = known.length > 1 ? Math.abs(one.x[known.at(-1)[1]] - one.x[known[0][1]]) / (known.length - 1) : 0;
  return distance <= spacing ? i : -1;
}

function showTip(node, at) {
  const { x, clip, picture } = node.parts;
  node.cursor = at;
  picture.querySelector(".cursor")?.remove();
  picture.append(svg("path", { d: `M${x.place(at)} ${clip.y}v${clip.height}`, class: "cursor" }));
  const rows = node.spec.series.map((one) => [one, nearest(one, at)]).filter(([, i]) => i >= 0);
  node.tip ??= element("div", { class: "tip", "aria-live": "polite" });
  node.tip.replaceChildren(element("b", {}, `${node.spec.x.title}: ${short(at, 4)}`), ...rows.map(([one, i]) => element(
    "span", {}, swatch(one.look), `${one.name}: ${one.text[i]}`,
  )));
  node.tip.classList.toggle("left", x.place(at) > clip.x + clip.width / 2);
  node.append(node.tip);
}

function closeTip(node) {
  delete node.cursor;
  node.tip?.remove();
  delete node.tip;
  node.querySelector(".cursor")?.remove();
}
