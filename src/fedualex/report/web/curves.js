// The curves of a panel: which output, against what, of which methods.

const AXES = {
  round: "communication rounds", exchanges: "exchanges", seconds: "seconds", megabytes: "megabytes communicated",
};
const COUNTED = ["round", "exchanges"];
const look = (method) => data.styles[method] ?? { color: "#000000", dark: "#ffffff", dash: [], marker: "o" };

function series(curve, axis, { mean, std }, { log = false, show = number, name = curve.method }) {
  const spread = std.some((value) => value !== null);
  const side = (sign) => mean.map((value, i) => (value === null || std[i] === null ? null : value + sign * std[i]));
  return {
    name, look: look(curve.method), log, line: true,
    x: curve[axis], y: mean,
    ...(spread ? { low: side(-1), high: side(1) } : {}),
    text: mean.map((value, i) => (value === null ? "" : show(value) + deviation(std[i]))),
  };
}

function gapChart(panel, curves, axis, named) {
  const found = curves.map((curve) => series(curve, axis, curve.gap, {
    log: true, show: (value) => `≤ ${bound(value, 4)}`, name: named(curve),
  }));
  const empty = found.length && found.every((one) => !one.y.some((value) => value > 0));
  return {
    label: `Certified bound on the duality gap of ${found.map((one) => one.name).join(", ")}`,
    x: { title: AXES[axis], whole: COUNTED.includes(axis) },
    y: { title: "gap ≤", log: true },
    series: found,
    // On the left, because gaps fall to the right.
    levels: panel.tol > 0 ? [{ y: panel.tol, text: `tolerance ${short(panel.tol)}`, left: true }] : [],
    message: empty ? NONE : "",
  };
}

function structureChart(panel, curves, axis, named, key, i) {
  const density = panel.structure === "density";
  const exact = (density ? panel.exact?.density : panel.exact?.rank?.[i]) ?? null;
  const found = curves.filter((curve) => curve.structure[key])
    .map((curve) => series(curve, axis, curve.structure[key], { name: named(curve) }));
  return {
    label: `${structureName(panel, key)} of ${found.map((one) => one.name).join(", ")}`,
    x: { title: AXES[axis], whole: COUNTED.includes(axis) },
    y: { title: structureName(panel, key), whole: !density, zero: !density },
    series: found,
    // Below the line, because methods come from the dense side.
    levels: exact === null ? [] : [{ y: exact, text: `exact optimum ${short(exact)}`, below: true }],
    message: "",
  };
}

const structureName = (panel, key) => (key === "all" ? panel.structure : `${panel.structure} of ${key}`);

function explain(panel, curves) {
  const several = panel.curves.some((curve) => curve.gap.std.some((value) => value !== null));
  const absent = curves.filter((curve) => !finite(curve.gap.mean).length).map((curve) => `${curve.method} (${curve.output})`);
  return [
    several ? "Lines are means, bands ± 1 standard deviation." : "",
    absent.length ? `No gap is drawn for what is ${NONE}: ${absent.join(", ")}.` : "",
    "Drag to zoom, double-click to see all; with the keyboard: arrows, +, − and 0.",
  ].filter(Boolean).join(" ");
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
  const answers = Object.fromEntries(panel.answers.map((answer) => [answer.method, answer]));
  const words = own.length > 1 ? "the answer of each method" : `the answer (${answers[own[0]]?.curve})`;
  output.append(element("option", { value: ANSWER }, words), ...outputs.map((name) => element("option", { value: name }, name)));
  axis.value = panel.x;
  for (const method of own) {
    const box = element("input", { type: "checkbox", checked: "", value: method, "data-control": "method" });
    find("fieldset").append(element("label", {}, box, swatch(look(method)), method));
  }
  find("fieldset").hidden = own.length < 2;

  const keys = unique(panel.curves.flatMap((curve) => Object.keys(curve.structure)));
  const gap = frame("Certified bound on the duality gap", "gap");
  const titles = (key) => (key === "all" ? "Density: the share of nonzero entries" : `Rank of ${key}`);
  const structures = keys.map((key) => frame(titles(key), key === "all" ? "structure" : `structure-${key}`));
  find(".charts").append(gap.figure, ...structures.map((one) => one.figure));

  const update = () => {
    const wanted = (method) => (output.value === ANSWER ? answers[method]?.curve : output.value);
    const ticked = [...part.querySelectorAll("[data-control=method]:checked")].map((box) => box.value);
    const curves = panel.curves.filter((curve) => curve.output === wanted(curve.method) && ticked.includes(curve.method));
    const named = (curve) => (output.value === ANSWER ? `${curve.method}, ${curve.output}` : curve.method);
    show(gap, gapChart(panel, curves, axis.value, named));
    structures.forEach((one, i) => show(one, structureChart(panel, curves, axis.value, named, keys[i], i)));
    find("[data-key]").textContent = explain(panel, curves);
    // What has no control of its own is never hidden.
    const final = (method) => (output.value === ANSWER ? answers[method]?.output : output.value);
    onChange((item) => (item.output === final(item.method) || !(outputs.includes(item.output) || output.value === ANSWER))
      && (ticked.includes(item.method) || !own.includes(item.method)));
  };
  form.addEventListener("change", update);
  update();
}
