// A chart of lines or points: drawn as SVG, zoomed by dragging or by keys, read by pointer or by keys.
//
// spec: { label, x: { title, whole }, y: { title, log, whole, zero }, series, levels, message }
// A series: { name, look, x, y, low, high, text, log, line, open, size }; a level: { y, text, below, left }.

const SIDES = { top: 12, right: 14, bottom: 46 };

function draw(node, spec) {
  if (node.spec && node.spec.x.title !== spec.x.title) node.view = null;  // another axis is another zoom
  if (!node.spec) listen(node);
  node.spec = spec;
  render(node);
}

function whole(spec) {
  const { series, levels, y } = spec;
  const heights = series.flatMap((one) => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]);
  return {
    x: extent(series.flatMap((one) => one.x)),
    y: extent([...heights, ...levels.map((level) => level.y)], y),
  };
}

function render(node) {
  const { spec } = node;
  const [width, height] = [node.clientWidth, node.clientHeight];
  if (!width) return;
  const view = node.view ?? whole(spec);
  const bottom = height - SIDES.bottom;
  const y = scale(view.y, bottom, SIDES.top, { ...spec.y, count: 6 });
  const left = 34 + 7 * greatest([2, ...y.ticks.map((tick) => tick.text.length)]);
  const right = width - SIDES.right;
  const x = scale(view.x, left, right, { ...spec.x, count: width < 450 ? 4 : 6 });
  const clip = { x: left, y: SIDES.top, width: right - left, height: bottom - SIDES.top };
  const inner = svg("svg", { ...clip, viewBox: `${clip.x} ${clip.y} ${clip.width} ${clip.height}` });
  inner.append(...spec.series.filter((one) => one.low).map((one) => band(one, x, y, view)));
  inner.append(...spec.series.map((one) => curve(one, x, y, view)));
  const picture = svg("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0,
    "aria-label": `${spec.label}. Arrow keys read the points, plus and minus zoom, 0 shows all. A table of the numbers follows.`,
  }, axes(spec, x, y, clip), inner, levels(spec, y, view, clip));
  if (spec.message) {
    const place = { x: (left + right) / 2, y: height / 2, "text-anchor": "middle", class: "message" };
    picture.append(svg("text", place, spec.message));
  }
  const focused = node.contains(document.activeElement);
  const read = node.cursor;
  node.replaceChildren(picture);
  node.parts = { x, y, clip, picture, view };
  if (focused) picture.focus({ preventScroll: true });
  if (read !== undefined) showTip(node, read);
}

function axes(spec, x, y, { x: left, y: top, width, height }) {
  const [right, bottom] = [left + width, top + height];
  const group = svg("g", { class: "axes" });
  for (const tick of x.ticks) {
    const at = x.place(tick.value);
    group.append(svg("path", { d: `M${at} ${bottom}v5`, class: "tick" }),
      svg("text", { x: at, y: bottom + 18, "text-anchor": "middle" }, tick.text));
  }
  for (const tick of y.ticks) {
    const at = y.place(tick.value);
    if (tick.major) group.append(svg("path", { d: `M${left} ${at}H${right}`, class: "grid" }));
    group.append(svg("path", { d: `M${left} ${at}h${tick.major ? -5 : -3}`, class: "tick" }),
      svg("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, tick.text));
  }
  group.append(svg("path", { d: `M${left} ${top}V${bottom}H${right}`, class: "frame" }),
    svg("text", { x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, spec.x.title),
    svg("text", { transform: `translate(14 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.y.title));
  return group;
}

// Lines across the chart with their names, above or below, wherever there is room.
function levels(spec, y, view, { x: left, y: top, width, height }) {
  const group = svg("g", { class: "levels" });
  for (const level of spec.levels) {
    if (level.y < view.y[0] || level.y > view.y[1]) continue;
    const at = y.place(level.y);
    const below = at < top + 24 || (level.below && at < top + height - 24);
    const x = level.left ? { x: left + 6, "text-anchor": "start" } : { x: left + width - 4, "text-anchor": "end" };
    const place = { ...x, y: below ? at + 15 : at - 6 };
    group.append(svg("path", { d: `M${left} ${at}H${left + width}` }), svg("text", place, level.text));
  }
  return group;
}

// The runs of points without a hole; a logarithmic axis has no place for 0 either.
function pieces(one, values) {
  const found = [[]];
  one.x.forEach((at, i) => {
    if (at !== null && values[i] !== null && (!one.log || values[i] > 0)) found.at(-1).push(i);
    else if (found.at(-1).length) found.push([]);
  });
  return found.filter((piece) => piece.length);
}

function band(one, x, y, view) {
  const low = (i) => y.place(one.log ? Math.max(one.low[i], view.y[0]) : one.low[i]);
  const d = pieces(one, one.high).map((piece) => {
    const up = piece.map((i) => `${x.place(one.x[i])} ${y.place(one.high[i])}`);
    const down = piece.toReversed().map((i) => `${x.place(one.x[i])} ${low(i)}`);
    return `M${[...up, ...down].join("L")}Z`;
  }).join("");
  return painted(svg("path", { d, class: "band", "data-name": one.name }), one.look);
}

function curve(one, x, y, view) {
  const group = painted(svg("g", { class: "series", "data-name": one.name }), one.look);
  const runs = pieces(one, one.y);
  if (one.line) {
    const d = runs.map((piece) => `M${piece.map((i) => `${x.place(one.x[i])} ${y.place(one.y[i])}`).join("L")}`).join("");
    group.append(svg("path", { d, class: "line", "stroke-width": WIDTH, "stroke-dasharray": dashes(one.look) }));
  }
  const all = runs.flat().filter((i) => one.x[i] >= view.x[0] && one.x[i] <= view.x[1]);
  const every = one.line ? Math.ceil(all.length / 12) : 1;
  for (const [j, i] of all.entries()) {
    if (j % every) continue;
    const place = `translate(${x.place(one.x[i])} ${y.place(one.y[i])})${one.size ? ` scale(${one.size})` : ""}`;
    group.append(svg("path", { d: MARKS[one.look.marker], transform: place, class: one.open ? "mark open" : "mark" }));
  }
  return group;
}
