// The page around the panels.

const BADGES = { "agrees": "✓", "agrees only if": "≈", "does not agree": "✗" };

function readingsTable({ readings }) {
  const experiments = unique(readings.map((one) => one.experiment));
  const cell = (reading, experiment) => {
    const found = readings.find((one) => one.reading === reading && one.experiment === experiment);
    if (!found) return element("td", {}, "–");
    const mark = element("b", { class: found.holds ? "yes" : "no" }, found.holds ? "✓ holds: " : "✗ does not: ");
    return element("td", { "data-label": experiment }, mark, found.measured);
  };
  const row = (reading) => element("tr", {}, element("th", { scope: "row" }, reading), ...experiments.map((name) => cell(reading, name)));
  return element("table", { class: "readings" },
    element("thead", {}, element("tr", {}, ...["reading", ...experiments].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...unique(readings.map((one) => one.reading)).map(row)));
}

function fillClaims(section) {
  if (!data.claims.length) return section.remove();
  section.querySelector("ol").append(...data.claims.map((claim) => {
    const small = claim.small ? " (small instance)" : "";
    const badge = element("span", { class: "badge", "data-word": claim.verdict }, `${BADGES[claim.verdict]} ${claim.verdict}${small}`);
    return element("li", {},
      element("p", {}, element("b", {}, claim.claim), " ", badge),
      element("p", { class: "why" }, claim.why),
      element("details", {}, element("summary", {}, "Measured, reading by reading"), readingsTable(claim)));
  }));
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

// As the system has it until the reader says otherwise.
function themeSwitch(button) {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = dark() ? "Light page" : "Dark page"; };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  button.hidden = false;
  name();
}

themeSwitch(document.getElementById("theme"));
fillNavigation(document.querySelector("nav"));
fillClaims(document.getElementById("claims"));
document.querySelectorAll(".panel").forEach((section, i) => fillPanel(section, data.panels[i]));
fillRepeat(document.getElementById("repeat"));
