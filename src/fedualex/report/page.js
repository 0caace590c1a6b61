"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// Okabe and Ito's colors without the yellow, which is lost on white. With 6 dashes and 8 symbols the three cycles
// meet again only after 168 methods.
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DASHES = [
  ["solid", ""], ["dash", "7 4"], ["dot", "2 3"],
  ["dashdot", "7 3 2 3"], ["longdash", "11 4"], ["longdashdot", "11 3 2 3"],
];
const SYMBOLS = [
  ["circle", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"],
  ["square", "M-4-4H4V4H-4Z"],
  ["diamond", "M0-5.2L5.2 0L0 5.2L-5.2 0Z"],
  ["triangle-up", "M0-4.8L5 3.8H-5Z"],
  ["x", "M-4.6-2.8L-2.8-4.6L0-1.8L2.8-4.6L4.6-2.8L1.8 0L4.6 2.8L2.8 4.6L0 1.8L-2.8 4.6L-4.6 2.8L-1.8 0Z"],
  ["triangle-down", "M0 4.8L5-3.8H-5Z"],
  ["cross", "M-1.6-5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5V-1.6H-1.6Z"],
  ["star", "M0-5.5L1.3-1.8L5.2-1.7L2.1.7L3.2 4.4L0 2.2L-3.2 4.4L-2.1.7L-5.2-1.7L-1.3-1.8Z"],
];
// Only while several outputs are shown at once: what is added to the symbol, and what that looks like.
const MARKERS = {
  last: ["", "filled"],
  ergodic: ["-open", "open"],
  client_average: ["-dot", "dotted"],
  polished: ["-open-dot", "open and dotted"],
};
const AXES = {
  round: "communication rounds", exchanges: "exchanges", seconds: "seconds", megabytes: "megabytes communicated",
};
const BADGES = { "agrees": "✓", "agrees only if": "≈", "does not agree": "✗" };
const NONE = "not certifiable";
const INK = "#1c2126";
const SOFT = "#5a646e";
const VEIL = "rgba(255, 255, 255, .8)";

const unique = (values) => [...new Set(values)];
const finite = (values) => values.filter((value) => value !== null);
// Not Math.min(...values): a long list would not fit among the arguments of a call.
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

const methods = unique(data.panels.flatMap((panel) => panel.curves.map((curve) => curve.method)));
function look(method) {
  const i = methods.indexOf(method);
  return {
    color: COLORS[i % COLORS.length], dash: DASHES[i % DASHES.length], symbol: SYMBOLS[i % SYMBOLS.length],
  };
}

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
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

function swatch({ color, dash, symbol }) {
  const node = element("span", { class: "swatch" });
  node.innerHTML = `<svg width="42" height="14" viewBox="-21 -7 42 14" aria-hidden="true">
    <path d="M-20 0H20" stroke="${color}" stroke-width="2" stroke-dasharray="${dash[1]}"/>
    <path d="${symbol[1]}" fill="${color}"/></svg>`;
  return node;
}

// ---- charts

const FONT = { family: getComputedStyle(document.body).fontFamily, size: 12, color: INK };
const AXIS = {
  gridcolor: "#e8ebee", linecolor: "#8b959f", showline: true, zeroline: false,
  ticks: "outside", tickcolor: "#8b959f", automargin: true,
};
const touch = matchMedia("(pointer: coarse)").matches;

// As many labels as decades: plotly then labels powers of ten only, and finer once the reader zooms in.
function logarithmic(traces) {
  const logs = traces.flatMap((trace) => trace.y).filter((value) => value > 0).map(Math.log10);
  const decades = greatest(logs) - least(logs);
  return {
    ...AXIS, type: "log", exponentformat: "power", nticks: Math.min(Math.max(Math.ceil(1.15 * decades), 3), 8),
    minor: { ticks: "outside", ticklen: 3, tickcolor: "#b9c1c9" },
  };
}

// One object for all charts and calls: a new configuration would make Plotly.react forget the reader's zoom.
const CONFIG = {
  responsive: true,
  displaylogo: false,
  // plotly.js offers by default to upload the chart; this page talks to nobody.
  showSendToCloud: false,
  plotlyServerURL: "",
  displayModeBar: touch ? true : "hover",
  modeBarButtonsToRemove: ["toImage", "select2d", "lasso2d", "autoScale2d"],
  modeBarButtonsToAdd: [{
    name: "save",
    title: "Save as an image, with a legend",
    icon: Plotly.Icons.camera,
    click: (chart) => Plotly.downloadImage(
      { data: chart.data, layout: { ...chart.layout, showlegend: true, legend: { orientation: "h", y: -0.2 } } },
      { format: "png", scale: 2, width: 900, height: 600, filename: chart.dataset.chart },
    ),
  }],
};

function draw(node, traces, layout) {
  Plotly.react(node, traces, {
    font: FONT,
    // The top margin keeps plotly's buttons off the curves.
    margin: { l: 52, r: 12, t: 30, b: 44 },
    showlegend: false,
    hovermode: "closest",
    // A finger that drags over a chart means to scroll the page.
    dragmode: touch ? false : "zoom",
    ...layout,
  }, CONFIG);
}

// Closed outlines, one for each stretch without a hole, so that nothing is filled in where nothing is known.
function band(x, mean, std, floor) {
  const outline = { x: [], y: [] };
  let stretch = [];
  const close = () => {
    const back = stretch.toReversed();
    outline.x.push(...stretch.map((i) => x[i]), ...back.map((i) => x[i]), null);
    outline.y.push(...stretch.map((i) => mean[i] + std[i]));
    outline.y.push(...back.map((i) => Math.max(mean[i] - std[i], floor)), null);
    stretch = [];
  };
  mean.forEach((value, i) => {
    if (value !== null && std[i] !== null && x[i] !== null) stretch.push(i);
    else if (stretch.length) close();
  });
  if (stretch.length) close();
  return outline;
}

const deviation = (value) => (value ? ` ± ${number(value, 2)}` : "");

function lines(curves, axis, seriesOf, { log = false, all = false, place = {}, show = short }) {
  const shown = curves.filter((curve) => seriesOf(curve)).map((curve) => {
    const { mean, std } = seriesOf(curve);
    return { curve, std, mean: log ? mean.map((value) => (value > 0 ? value : null)) : mean };
  });
  // A band that reaches below zero goes on to the bottom of a logarithmic chart.
  const floor = log ? least(finite(shown.flatMap(({ mean }) => mean))) / 2 : 0;
  const bands = shown.map(({ curve, mean, std }) => ({
    ...band(curve[axis], mean, std, floor), ...place,
    type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", showlegend: false,
    line: { width: 0 }, fillcolor: look(curve.method).color, opacity: all ? 0.08 : 0.16,
  }));
  return bands.concat(shown.map(({ curve, mean, std }) => {
    const { color, dash, symbol } = look(curve.method);
    const name = `${curve.method}, ${curve.output}`;
    const variant = all ? (MARKERS[curve.output]?.[0] ?? "") : "";
    return {
      x: curve[axis], y: mean, ...place,
      type: "scatter", mode: "lines+markers", name, legendgroup: name, showlegend: place.yaxis !== "y2",
      line: { color, dash: dash[0], width: all && curve.output !== "last" ? 1.2 : 2 },
      marker: { color, symbol: symbol[0] + variant, size: all ? 9 : 8, maxdisplayed: all ? 6 : 12 },
      customdata: mean.map((value, i) => (value === null ? "" : show(value, 4) + deviation(std[i]))),
      hovertemplate: `<b>${name}</b><br>${AXES[axis]}: %{x:.4~g}<br>%{customdata}<extra></extra>`,
    };
  }));
}

function drawGap(node, curves, axis, all) {
  const traces = lines(curves, axis, (curve) => curve.gap, { log: true, all, show: (value, digits) => `≤ ${bound(value, digits)}` });
  const empty = curves.length && traces.every((trace) => !finite(trace.y).length);
  draw(node, traces, {
    xaxis: { ...AXIS, title: { text: AXES[axis] } },
    yaxis: { ...logarithmic(traces), title: { text: "gap ≤" } },
    annotations: empty ? [{
      text: NONE, xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, font: { size: 14, color: SOFT },
    }] : [],
    uirevision: `${axis} ${all}`,
  });
}

function exactLine(value, label, top, place) {
  return {
    shape: {
      ...place, type: "line", x0: 0, x1: 1, y0: value, y1: value, line: { color: INK, width: 1.5, dash: "dash" },
    },
    // Below the line, because methods come from the dense side; above where there is no room below.
    annotation: {
      ...place, x: 0.99, xanchor: "right", y: value, yanchor: value < 0.12 * top ? "bottom" : "top",
      text: label, showarrow: false, bgcolor: VEIL,
    },
  };
}

function drawStructure(node, panel, curves, axis, all) {
  const density = panel.structure === "density";
  const keys = unique(panel.curves.flatMap((curve) => Object.keys(curve.structure)));
  const layout = { shapes: [], annotations: [], uirevision: `${axis} ${all}` };
  const traces = keys.flatMap((key, i) => {
    const suffix = i ? i + 1 : "";
    const last = i === keys.length - 1;
    const seriesOf = (curve) => curve.structure[key];
    layout[`xaxis${suffix}`] = {
      ...AXIS, anchor: `y${suffix}`, showticklabels: last, title: { text: last ? AXES[axis] : "" },
      ...(i ? { matches: "x" } : {}),
    };
    layout[`yaxis${suffix}`] = {
      ...AXIS, title: { text: key === "all" ? panel.structure : `${panel.structure} of ${key}` },
      domain: [1 - (i + 1) / keys.length + (last ? 0 : 0.035), 1 - i / keys.length - (i ? 0.035 : 0)],
      ...(density ? { range: [-0.02, 1.04] } : { rangemode: "tozero" }),
    };
    const exact = (density ? panel.exact?.density : panel.exact?.rank?.[i]) ?? null;
    if (exact !== null) {
      const top = density ? 1 : greatest(curves.flatMap((curve) => seriesOf(curve)?.mean ?? []));
      const place = { xref: `x${suffix} domain`, yref: `y${suffix}` };
      const { shape, annotation } = exactLine(exact, `exact optimum: ${short(exact)}`, top, place);
      layout.shapes.push(shape);
      layout.annotations.push(annotation);
    }
    return lines(curves, axis, seriesOf, { all, place: { xaxis: `x${suffix}`, yaxis: `y${suffix}` } });
  });
  draw(node, traces, layout);
}

function drawBlock(node, block) {
  const sorted = (values) => finite(values).map(Math.abs).filter((value) => value > data.nonzero).sort((a, b) => b - a);
  const total = finite(block.values).length;
  const count = sorted(block.values).length;
  const dense = total > 60;
  const trace = (values, name, style) => {
    const y = sorted(values);
    const hovertemplate = `${name}<br>%{x}: %{y:.4~g}<extra></extra>`;
    return { x: y.map((_, i) => i + 1), y, name, hovertemplate, type: "scatter", ...style };
  };
  const traces = [
    trace(block.values, "this output", { mode: "markers", marker: { color: COLORS[0], size: dense ? 4 : 8 } }),
  ];
  if (block.exact) {
    traces.push(trace(block.exact, "exact optimum", dense ? { mode: "lines", line: { color: COLORS[1], width: 1.5 } } : {
      mode: "markers", marker: { color: COLORS[1], symbol: "diamond-open", size: 11, line: { width: 1.5 } },
    }));
  }
  draw(node, traces, {
    showlegend: true,
    // What is sorted from the largest down leaves this corner free.
    legend: { x: 1, xanchor: "right", y: 1, yanchor: "top", bgcolor: VEIL, itemsizing: "constant" },
    xaxis: { ...AXIS, title: { text: `${block.kind}, largest first` }, range: [0.5 - 0.02 * total, 0.5 + 1.02 * total] },
    yaxis: logarithmic(traces),
    shapes: [{
      type: "rect", layer: "below", line: { width: 0 }, fillcolor: "#eef1f4",
      yref: "paper", x0: count + 0.5, x1: total + 0.5, y0: 0, y1: 1,
    }],
    annotations: total - count > 0.15 * total ? [{
      text: `${total - count} zeros`, font: { color: SOFT }, showarrow: false,
      x: (count + total + 1) / 2, yref: "paper", y: 0.04, yanchor: "bottom",
    }] : [],
  });
}

// ---- the parts of a panel

function fillExact(node, { exact }) {
  if (!exact) return node.remove();
  const facts = [`value ${short(exact.value, 7)}`, exact.gap === null ? NONE : `certified gap ${bound(exact.gap)}`];
  if (exact.density !== null) facts.push(`density ${short(exact.density)}`);
  if (exact.rank !== null) facts.push(`rank ${exact.rank.join(" and ")}`);
  node.append(element("b", {}, "Exact optimum"), ` by ${exact.how}: ${facts.join(", ")}.`);
}

function explain(curves, outputs, all) {
  const marker = (name) => `${MARKERS[name]?.[1] ?? "filled"} ${name}`;
  const missing = curves.filter((curve) => !finite(curve.gap.mean).length);
  const absent = missing.map((curve) => `${curve.method} (${curve.output})`);
  return [
    "Lines are means, bands ± 1 standard deviation.",
    all ? `Markers: ${outputs.map(marker).join(", ")}.` : "",
    absent.length ? `No gap is drawn for what is ${NONE}: ${absent.join(", ")}.` : "",
  ].join(" ");
}

function fillCurves(part, panel, onChange) {
  if (!panel.curves.length) {
    part.remove();
    return onChange(() => true);
  }
  const find = (selector) => part.querySelector(selector);
  const [form, output, axis] = [find("form"), find("[data-control=output]"), find("[data-control=x]")];
  const outputs = unique(panel.curves.map((curve) => curve.output));
  const own = unique(panel.curves.map((curve) => curve.method));
  output.append(...[...outputs, "all"].map((name) => element("option", { value: name }, name)));
  output.value = outputs.includes("last") ? "last" : outputs[0];
  for (const method of own) {
    const box = element("input", { type: "checkbox", checked: "", value: method, "data-control": "method" });
    find("fieldset").append(element("label", {}, box, swatch(look(method)), method));
  }
  const words = { density: "Density: the share of nonzero entries", rank: "Rank" };
  find("[data-structure]").textContent = words[panel.structure];

  const update = () => {
    const all = output.value === "all";
    const ticked = [...part.querySelectorAll("[data-control=method]:checked")].map((box) => box.value);
    // What has no control of its own is never hidden.
    const chosen = (item) => (all || output.value === item.output || !outputs.includes(item.output))
      && (ticked.includes(item.method) || !own.includes(item.method));
    const curves = panel.curves.filter(chosen);
    drawGap(find("[data-chart=gap]"), curves, axis.value, all);
    drawStructure(find("[data-chart=structure]"), panel, curves, axis.value, all);
    find("[data-key]").textContent = explain(curves, outputs, all);
    onChange(chosen);
  };
  form.addEventListener("change", update);
  update();
}

// A column: its name, its CSS class, the key it is sorted by (null comes last) and what its cells show.
function fillTable(table, columns, rows) {
  const body = element("tbody");
  const line = (row) => columns.map(({ kind, show }) => element("td", { class: kind }, show(row)));
  const list = (sorted) => body.replaceChildren(...sorted.map((row) => element("tr", {}, ...line(row))));
  const head = columns.map(({ name, kind, key }) => {
    const button = element("button", { type: "button" }, name);
    const th = element("th", { scope: "col", class: kind }, button);
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") !== "ascending";
      head.forEach((other) => other.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      list(rows.toSorted((a, b) => {
        const [left, right] = [key(a), key(b)];
        if (left === null || right === null) return (left === null) - (right === null);
        const order = typeof left === "number" ? left - right : left.localeCompare(right);
        return up ? order : -order;
      }));
    });
    return th;
  });
  table.replaceChildren(element("thead", {}, element("tr", {}, ...head)), body);
  list(rows);
}

const column = (name, kind, key, show = key) => ({ name, kind, key, show });
const text = (name, kind = "") => column(name, kind, (row) => row[name]);
const amount = (name, key, show = number) => column(name, "number", (row) => row[key], (row) => show(row[key]));
const gapColumn = (name, show) => column(
  name, "number", (row) => row.gap, (row) => (row.gap === null ? element("span", { class: "muted" }, NONE) : show(row)),
);

function fillResults(part, panel) {
  if (!panel.table.length) return part.remove();
  const best = least(finite(panel.table.map((row) => row.gap)));
  const gap = (row) => {
    const words = bound(row.gap) + deviation(row.gap_std);
    return row.gap === best ? element("strong", {}, words) : words;
  };
  const measured = panel.table.some((row) => row.distance !== null);
  fillTable(part.querySelector("table"), [
    text("method"),
    text("output"),
    gapColumn("gap ≤", gap),
    column(panel.structure, "number", (row) => parseFloat(row.structure) || 0, (row) => row.structure),
    ...(measured ? [amount("distance", "distance")] : []),
    amount("exchanges", "exchanges"),
    amount("seconds", "seconds"),
    amount("MB", "megabytes"),
    text("steps", "muted"),
    text("status", "status"),
    text("stop", "status"),
  ], panel.table);
  if (measured) part.querySelector(".small").append(" Distance: of the objective from the exact value.");
}

function share({ x, y }) {
  const [left, right] = [Math.max(x, 0), Math.max(y, 0)];
  if (left + right === 0) return "–";
  const percent = Math.round((100 * left) / (left + right));
  const filled = element("i");
  filled.style.width = `${percent}%`;
  const label = `x ${percent} %, y ${100 - percent} %`;
  return element("span", {}, element("span", { class: "share", role: "img", "aria-label": label }, filled), ` ${label}`);
}

function fillCertificates(part, rows) {
  fillTable(part.querySelector("table"), [
    text("method"),
    text("output"),
    amount("x part", "x", bound),
    amount("y part", "y", bound),
    ...(rows.some((row) => Math.abs(row.shift) > row.rounding) ? [amount("shift", "shift")] : []),
    amount("rounding", "rounding", bound),
    gapColumn("gap ≤ sum", (row) => element("strong", {}, bound(row.gap))),
    column("shares", "", (row) => (row.gap > 0 ? row.x / row.gap : null), (row) => (row.gap === null ? "" : share(row))),
    ...(rows.some((row) => row.reason) ? [text("reason", "text")] : []),
  ], rows);
}

function blockFigure(block) {
  const nonzero = (values) => values.filter((value) => Math.abs(value) > data.nonzero).length;
  const known = finite(block.values).length;
  const facts = [`${nonzero(block.values)} of ${known} nonzero`];
  if (block.exact) facts.push(`exact optimum ${nonzero(block.exact)}`);
  if (known < block.values.length) facts.push(`${block.values.length - known} not finite`);
  const caption = element("figcaption", {}, `${block.name} `, element("span", {}, facts.join(", ")));
  return element("figure", {}, caption, element("div", { class: "chart", "data-chart": `solution-${block.name}` }));
}

function fillSolutions(part, panel) {
  if (!panel.solutions.length) return part.remove();
  const select = part.querySelector("select");
  const charts = part.querySelector(".charts");
  const option = ({ method, output }, i) => element("option", { value: i }, `${method}, ${output}`);
  select.append(...panel.solutions.map(option));
  const update = () => {
    charts.querySelectorAll(".chart").forEach((chart) => Plotly.purge(chart));
    const { blocks } = panel.solutions[select.value];
    charts.replaceChildren(...blocks.map(blockFigure));
    charts.querySelectorAll(".chart").forEach((chart, i) => drawBlock(chart, blocks[i]));
  };
  select.addEventListener("change", update);
  part.append(element("p", { class: "small" }, `Sizes up to ${number(data.nonzero, 1)} count as zero.`));
  update();
}

function fillNotes(part, panel) {
  if (!panel.notes.length) return part.remove();
  part.querySelector("ul").append(...panel.notes.map((note) => element("li", {}, note)));
}

function fillPanel(section, panel) {
  // In the document first: a chart measures the place it is drawn in.
  section.append(document.getElementById("panel").content.cloneNode(true));
  const part = (name) => section.querySelector(`.${name}`);
  const certificates = part("certificates");
  fillExact(part("exact"), panel);
  fillCurves(part("curves"), panel, (chosen) => fillCertificates(certificates, panel.certificates.filter(chosen)));
  if (!panel.certificates.length) certificates.remove();
  fillResults(part("results"), panel);
  fillSolutions(part("solutions"), panel);
  fillNotes(part("notes"), panel);
}

// ---- the page around the panels

function fillClaims(section) {
  if (!data.claims.length) return section.remove();
  const cell = (label, child) => element("td", { "data-label": label }, child);
  const badge = (word) => element("span", { class: "badge", "data-verdict": word }, `${BADGES[word]} ${word}`);
  section.querySelector("tbody").append(...data.claims.map(({ claim, measured, verdict, why }) => element(
    "tr", {}, cell("claim", claim), cell("measured", measured), cell("verdict", badge(verdict)), cell("why", why),
  )));
  section.hidden = false;
}

function fillNavigation(nav) {
  const link = ({ title }, i) => element("li", {}, element("a", { href: `#panel-${i}` }, title));
  nav.append(element("ul", {}, ...data.panels.map(link)));
  nav.hidden = data.panels.length < 2;
}

function fillRepeat(section) {
  const { command, versions, machine, created, seeds } = data.repeat;
  const list = (mapping) => Object.entries(mapping).map(([name, value]) => `${name} ${value}`).join(", ");
  const facts = Object.entries({ seeds, versions: list(versions), machine: list(machine), created });
  section.querySelector("code").textContent = command;
  section.querySelector("dl").append(
    ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

fillNavigation(document.querySelector("nav"));
fillClaims(document.getElementById("claims"));
document.querySelectorAll(".panel").forEach((section, i) => fillPanel(section, data.panels[i]));
fillRepeat(document.getElementById("repeat"));
