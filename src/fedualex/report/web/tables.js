// Tables that a click sorts, and the frame of a chart with its buttons and its numbers.

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
const badge = (name) => column(name, "", (row) => row[name], (row) => element("span", { class: "badge", "data-word": row[name] }, row[name]));

// ---- the frame of a chart

function frame(title, name, note = "") {
  const chart = element("div", { class: "chart", "data-chart": name });
  const button = (label, words, act) => {
    const node = element("button", { type: "button", "aria-label": `${words}: ${title}`, title: words }, label);
    node.addEventListener("click", act);
    return node;
  };
  const buttons = element("span", { class: "buttons" },
    button("+", "Zoom in", () => zoomBy(chart, 0.5)),
    button("−", "Zoom out", () => zoomBy(chart, 2)),
    button("all", "Show all", () => showAll(chart)));
  const caption = element("figcaption", {}, element("span", { class: "title" }, title), ` ${note}`, buttons);
  const numbers = element("details", { class: "numbers" }, element("summary", {}, "The numbers as a table"));
  numbers.addEventListener("toggle", () => numbers.open && fillNumbers(numbers, chart.spec));
  return { figure: element("figure", {}, caption, chart, numbers), chart, numbers };
}

function show({ chart, numbers }, spec) {
  draw(chart, spec);
  if (numbers.open) fillNumbers(numbers, spec);
}

function fillNumbers(details, spec) {
  const stops = unique(spec.series.flatMap((one) => finite(one.x))).sort((a, b) => a - b);
  const head = [spec.x.title, ...spec.series.map((one) => one.name)];
  const rows = stops.map((at) => [short(at, 4), ...spec.series.map((one) => one.text[one.x.indexOf(at)] ?? "")]);
  const table = element("table", {},
    element("caption", {}, spec.label),
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col", class: "number" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", { class: "number" }, cell))))));
  const region = element("div", { class: "scroll low", tabindex: 0, role: "region", "aria-label": spec.label }, table);
  details.replaceChildren(details.firstElementChild, region);
}
