// The parts of a panel besides its curves.

function fillAnswer(section, panel) {
  const headline = section.querySelector(".headline");
  if (panel.headline === data.headline) headline.remove();  // the page begins with it
  else headline.textContent = panel.headline;
  if (!panel.findings.length) section.querySelector(".says").remove();
  else section.querySelector(".findings").append(...panel.findings.map((finding) => element("li", {}, finding)));
  const { exact } = panel;
  const node = section.querySelector(".exact");
  if (!exact) return node.remove();
  const facts = [`value ${short(exact.value, 7)}`, exact.gap === null ? NONE : `certified gap ${bound(exact.gap)}`];
  if (exact.density !== null) facts.push(`density ${short(exact.density)}`);
  if (exact.rank !== null) facts.push(`rank ${exact.rank.join(" and ")}`);
  node.append(element("b", {}, "Exact optimum"), ` by ${exact.how}: ${facts.join(", ")}.`);
}

function fillResults(part, panel) {
  if (!panel.table.length) return part.remove();
  const best = least(finite(panel.table.map((row) => row.gap)));
  const gap = (row) => {
    const words = bound(row.gap) + deviation(row.gap_std);
    return row.gap === best ? element("strong", {}, words) : words;
  };
  const name = (row) => (row.answer ? element("span", {}, row.output, element("b", { title: "the answer" }, " ★")) : row.output);
  const measured = panel.table.some((row) => row.distance !== null);
  const apart = panel.table.some((row) => row.exchanges !== row.rounds);
  fillTable(part.querySelector("table"), [
    text("method"),
    column("output", "", (row) => row.output, name),
    gapColumn("gap ≤", gap),
    badge("status"),
    column(panel.structure, "number", (row) => parseFloat(row.structure) || 0, (row) => row.structure),
    ...(measured ? [amount("distance", "distance")] : []),
    amount("rounds", "rounds", (value) => short(value, 6)),
    ...(apart ? [amount("exchanges", "exchanges", (value) => short(value, 6))] : []),
    amount("seconds", "seconds"),
    amount("MB", "megabytes"),
    text("stop", "word"),
    column("settings", "muted settings", (row) => row.steps),
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
  return element("span", {}, element("span", { class: "share", "aria-hidden": "true" }, filled), ` ${label}`);
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

// ---- the structure of a solution: sizes from the largest down

// As the lines of exact optima are: of no method's color.
const EXACT = { color: "#5a646d", dark: "#b4bec8", dash: [], marker: "D" };

function blockChart(block, method) {
  const sorted = (values) => finite(values).map(Math.abs).filter((value) => value > data.nonzero).sort((a, b) => b - a);
  const dense = finite(block.values).length > 60;
  const points = (values, name, style) => {
    const y = sorted(values);
    return { name, x: y.map((_, i) => i + 1), y, text: y.map((value) => number(value, 4)), log: true, ...style };
  };
  const found = [points(block.values, "this output", { look: { ...look(method), marker: "o" }, size: dense ? 0.5 : 1 })];
  if (block.exact) {
    found.push(points(block.exact, "exact optimum", { look: EXACT, line: dense, open: true, size: dense ? 0.5 : 1.2 }));
  }
  return {
    label: `Sizes of the ${block.kind} of ${block.name}, largest first`,
    x: { title: `${block.kind}, largest first`, whole: true },
    y: { title: "size", log: true },
    series: found, levels: [], message: found[0].y.length ? "" : "all are zero",
  };
}

function blockNote(block) {
  const nonzero = (values) => values.filter((value) => Math.abs(value) > data.nonzero).length;
  const known = finite(block.values).length;
  const facts = [`${nonzero(block.values)} of ${known} nonzero`];
  if (block.exact) facts.push(`exact optimum ${nonzero(block.exact)}`);
  if (known < block.values.length) facts.push(`${block.values.length - known} not finite`);
  return facts.join(", ");
}

function fillSolutions(part, panel) {
  // Entries of a model have names, and are shown with them.
  if (!panel.solutions.length || panel.model) return part.remove();
  const select = part.querySelector("select");
  const charts = part.querySelector(".charts");
  select.append(...panel.solutions.map(({ method, output }, i) => element("option", { value: i }, `${method}, ${output}`)));
  const answer = panel.answers[0];
  const first = panel.solutions.findIndex((one) => one.method === answer?.method && one.output === answer?.output);
  select.value = Math.max(first, 0);
  const update = () => {
    const { method, blocks } = panel.solutions[select.value];
    const frames = blocks.map((block) => [frame(block.name, `solution-${block.name}`, blockNote(block)), block]);
    charts.replaceChildren(...frames.map(([one]) => one.figure));
    frames.forEach(([one, block]) => show(one, blockChart(block, method)));
  };
  select.addEventListener("change", update);
  part.append(element("p", { class: "small" }, `Circles: this output; diamonds: the exact optimum, where known. Sizes up to ${number(data.nonzero, 1)} count as zero.`));
  update();
}

function fillPanel(section, panel) {
  // In the document first: a chart measures the place it is drawn in.
  section.append(document.getElementById("panel").content.cloneNode(true));
  const part = (name) => section.querySelector(`.${name}`);
  const certificates = part("certificates");
  fillAnswer(section, panel);
  fillModel(part("model"), panel);
  fillCurves(part("curves"), panel, (chosen) => fillCertificates(certificates, panel.certificates.filter(chosen)));
  if (!panel.certificates.length) certificates.remove();
  fillResults(part("results"), panel);
  fillSolutions(part("solutions"), panel);
  if (!panel.notes.length) return part("notes").remove();
  part("notes").querySelector("ul").append(...panel.notes.map((note) => element("li", {}, note)));
}
