// The model of a fit: named, signed coefficients, and how it fares at each client.

const FEW = 30;

const signed = (value) => (value > 0 ? "+" : "") + number(value, 4);

// A bar to the right for what adds, to the left for what takes away.
function bar(value, largest) {
  const share = `${(50 * Math.abs(value)) / largest}%`;
  const filled = element("i", { class: value > 0 ? "plus" : "minus" });
  filled.style.width = share;
  return element("span", { class: "bar", "aria-hidden": "true" }, filled);
}

function fillCoefficients(part, model) {
  const select = part.querySelector("select");
  select.append(...model.scores.map((name, i) => element("option", { value: i }, name)));
  select.closest("form").hidden = model.scores.length < 2;
  const button = element("button", { type: "button", class: "more" });
  let all = false;
  const update = () => {
    const score = Number(select.value || 0);
    const largest = greatest([1e-300, ...model.coefficients.map((one) => Math.abs(one.deviation[score]))]);
    const rows = all ? model.coefficients : model.coefficients.slice(0, FEW);
    fillTable(part.querySelector("table"), [
      text("feature"),
      column("", "", (row) => row.deviation[score], (row) => bar(row.deviation[score], largest)),
      column("per deviation", "number", (row) => row.deviation[score], (row) => signed(row.deviation[score])),
      column("per unit", "number", (row) => row.unit[score], (row) => signed(row.unit[score])),
    ], rows);
    button.textContent = `Show all ${model.coefficients.length}`;
    button.hidden = all || model.coefficients.length <= FEW;
    part.querySelector("[data-intercept]").textContent = `Intercept ${signed(model.intercept[score])}. `
      + `${model.zeros} of ${model.zeros + model.coefficients.length} features have the coefficient 0. `
      + "Per deviation: for one standard deviation more, by which features can be compared; a category counts as one unit.";
  };
  button.addEventListener("click", () => {
    all = true;
    update();
  });
  select.addEventListener("change", update);
  part.querySelector(".scroll").after(button);
  part.querySelector("[data-meaning]").textContent = model.meaning;
  update();
}

function fillMeasures(part, measures) {
  if (!measures) return part.remove();
  const rows = [{ name: "all clients", trained: null, values: measures.overall, all: true }, ...measures.clients];
  const value = (i) => (row) => {
    const found = row.values[i];
    const shown = measures.names[i] === "rows" ? String(found) : number(found, 4);
    const isWorst = !row.all && measures.worst[i] !== null && found === measures.worst[i];
    return isWorst ? element("strong", { title: "the worst of all clients" }, shown) : shown;
  };
  fillTable(part.querySelector("table"), [
    column("client", "", (row) => row.name),
    ...(measures.clients.length ? [column("rows trained on", "number", (row) => row.trained, (row) => row.trained ?? "")] : []),
    ...measures.names.map((name, i) => column(name, "number", (row) => row.values[i], value(i))),
  ], rows);
  part.querySelector("[data-rows]").textContent = `On ${measures.rows} rows that were held out.`
    + (measures.clients.length > 1 ? " The worst of each column is bold." : "");
}

function fillModel(part, { model }) {
  if (!model) return part.remove();
  fillMeasures(part.querySelector(".measures"), model.measures);
  fillCoefficients(part.querySelector(".coefficients"), model);
}
