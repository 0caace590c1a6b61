"""The page: what is refused, what is in the file, and what a real browser makes of it."""

import copy
import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.report_data import METHODS, OUTPUTS, report_data

from fedualex.report.page import render
from fedualex.runtime.outputs import NONZERO

PACKAGES = ("chromium", "chromium-driver")  # Debian's names


class Reader(HTMLParser):
    """The tags with their attributes, and the text of every script."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def embedded(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_page_is_one_file_that_loads_nothing():
    reader = Reader(render(report_data()))
    loads = {"src", "href", "action", "data", "poster", "srcset", "background"}
    for tag, attributes in reader.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        assert not loads & attributes.keys(), (tag, attributes)
    assert len(reader.scripts) == 3
    assert "plotly.js v" in reader.scripts[1][:200]
    assert "http" not in reader.scripts[2]
    policy = next(a["content"] for tag, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_page_holds_the_data_and_a_section_for_each_panel():
    data = report_data()
    page = render(data)
    assert embedded(page) == {**data, "nonzero": NONZERO}
    names = [a["data-name"] for tag, a in Reader(page).tags if tag == "section" and a.get("class") == "panel"]
    assert names == ["l1-k10", "nuclear-k10"]


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--<script>", '"&<b>$title</b>'])
def test_text_is_text_wherever_it_stands(text):
    data = report_data()
    data["title"] = data["subtitle"] = text
    data["panels"][0] |= {"title": text, "name": text}
    data["claims"][0]["claim"] = text
    page = render(data)
    reader = Reader(page)
    assert len(reader.scripts) == 3
    assert next(a for tag, a in reader.tags if a.get("class") == "panel")["data-name"] == text
    assert embedded(page)["claims"][0]["claim"] == text
    assert not any(tag == "b" for tag, _ in reader.tags)


def test_numbers_that_are_not_finite_become_null():
    data = report_data()
    data["panels"][0]["curves"][0]["gap"]["mean"][:2] = [float("nan"), float("inf")]
    assert embedded(render(data))["panels"][0]["curves"][0]["gap"]["mean"][:3] == [
        None,
        None,
        data["panels"][0]["curves"][0]["gap"]["mean"][2],
    ]


PATHS = [
    ("claims",),
    ("panels", 1, "exact"),
    ("panels", 0, "exact", "how"),
    ("panels", 1, "curves", 3, "gap"),
    ("panels", 1, "curves", 3, "structure", "y", "std"),
    ("panels", 0, "table", 2, "gap_std"),
    ("panels", 0, "certificates", 0, "reason"),
    ("panels", 0, "solutions", 0, "blocks", 1, "kind"),
    ("repeat", "command"),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(map(str, path)))
def test_a_missing_key_is_named_with_its_place(path):
    data = report_data()
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    where = "data" + "".join(f"[{key!r}]" for key in path[:-1])
    with pytest.raises(ValueError, match=re.escape(f"{where} lacks the key {path[-1]!r}; it has ")):
        render(data)


def changed(value: Any, *path: Any) -> dict[str, Any]:
    data = copy.deepcopy(report_data())
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            changed("sparsity", "panels", 0, "structure"),
            "data['panels'][0]['structure'] must be 'density' or 'rank', got 'sparsity'",
        ),
        (changed("maybe", "claims", 0, "verdict"), "data['claims'][0]['verdict'] must be 'agrees' or"),
        (changed({}, "panels"), "data['panels'] must be a list, got {}"),
        (
            changed("small", "panels", 0, "table", 0, "gap"),
            "data['panels'][0]['table'][0]['gap'] must be int | float | None, got 'small'",
        ),
        (
            changed([1, 2], "panels", 0, "curves", 0, "seconds"),
            "data['panels'][0]['curves'][0]: seconds has 2 entries, but round has",
        ),
        (
            changed([], "panels", 1, "curves", 2, "structure", "y", "mean"),
            "data['panels'][1]['curves'][2]: y mean has 0 entries",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_does_not_fit_is_refused(data, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        render(data)


# ---- in a real browser


def installed_browser() -> tuple[str, str]:
    """Chromium and its driver, installed from the system's packages where missing; a clear failure if there is none."""
    with (Path(tempfile.gettempdir()) / "fedualex-install-browser.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run in several processes, apt in one only
        if not (shutil.which("chromium") and shutil.which("chromedriver")):
            install("apt-get", "update")
            install("apt-get", "install", "-y", "--no-install-recommends", *PACKAGES)
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found):
        pytest.fail(
            f"no browser: {' and '.join(PACKAGES)} are installed, but chromium and chromedriver are not on PATH"
        )
    return str(found[0]), str(found[1])


def install(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=250, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "")[-2000:]
        pytest.fail(f"no browser: chromium or chromedriver is missing, and installing it failed: {error}\n{said}")


class Page:
    """The page in the browser, and what a reader does with it."""

    def __init__(self, driver: Any):
        self.driver = driver
        self.opened: list[str] = []

    def open(self, file: Path, width: int = 1280) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.opened.append(file.as_uri())
        self.driver.get(file.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def control(self, panel: str, name: str, value: str | None = None) -> Any:
        selector = f'.panel[data-name="{panel}"] [data-control="{name}"]' + (f'[value="{value}"]' if value else "")
        return self.driver.find_element("css selector", selector)

    def choose(self, panel: str, name: str, value: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.control(panel, name)).select_by_value(value)

    def toggle(self, panel: str, method: str) -> None:
        self.control(panel, "method", method).click()

    def chart(self, panel: str, chart: str) -> dict[str, Any]:
        """Lines by name (bands have none), axes, texts, and the number of points that are really drawn."""
        return self.run(
            """
            const node = document.querySelector(`.panel[data-name="${arguments[0]}"] [data-chart="${arguments[1]}"]`);
            const drawn = [...node.querySelectorAll(".scatterlayer .js-line")].map((path) => path.getAttribute("d") ?? "");
            const layout = node._fullLayout;
            const lines = node.data.filter((trace) => trace.name);
            return {
              lines: Object.fromEntries(lines.map((trace) => [trace.name, {x: trace.x, y: trace.y, color: trace.line?.color, dash: trace.line?.dash, symbol: trace.marker?.symbol}])),
              bands: node.data.filter((trace) => !trace.name).map((trace) => trace.y),
              points: drawn.map((d) => (d.match(/[MLHVCQS]/g) ?? []).length),
              fills: [...node.querySelectorAll(".js-fill")].filter((path) => path.getAttribute("d")).length,
              markers: node.querySelectorAll(".scatterlayer .point").length,
              xtitle: (layout.xaxis2 ?? layout.xaxis).title.text,
              ranges: [layout.xaxis.range, layout.yaxis.range],
              type: layout.yaxis.type,
              texts: layout.annotations.map((annotation) => annotation.text),
              levels: layout.shapes.map((shape) => shape.y0),
              size: [node.clientWidth, node.querySelector(".main-svg").clientWidth],
              buttons: [...node.querySelectorAll(".modebar-btn")].map((button) => button.getAttribute("data-title") ?? button.getAttribute("aria-label")),
            };
            """,
            panel,
            chart,
        )

    def column(self, panel: str, part: str, i: int) -> list[str]:
        selector = f'.panel[data-name="{panel}"] .{part} tbody td:nth-child({i})'
        return [cell.text for cell in self.driver.find_elements("css selector", selector)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "page.html"
    file.write_text(render(report_data()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary, driver_path = installed_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    # The rules leave the browser no host but this machine, whatever it may want to look up by itself.
    arguments = ["--headless=new", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
    for argument in (*arguments, "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver_path)) as driver:
        yield Page(driver)


@pytest.fixture
def page(browser: Page, report: Path) -> Iterator[Page]:
    """The page freshly opened; afterwards there must be no error and no request but for the file itself."""
    collect = "window.failures = []; for (const kind of ['error', 'unhandledrejection']) addEventListener(kind, (event) => failures.push(event.message ?? String(event.reason)));"
    browser.driver.get_log("browser")
    browser.driver.get_log("performance")
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": collect})
    browser.opened.clear()
    browser.open(report)
    yield browser
    assert browser.run("return window.failures") == []
    assert browser.driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == browser.opened
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


slow = [pytest.mark.slow, pytest.mark.timeout(600)]


def names(output: str) -> set[str]:
    return {f"{method}, {output}" for method in METHODS}


class TestBrowser:
    pytestmark = slow

    def test_curves_bands_and_exact_optima_are_drawn(self, page):
        gap = page.chart("l1-k10", "gap")
        assert gap["type"] == "log"
        assert gap["lines"].keys() == names("last")
        assert len([n for n in gap["points"] if n > 5]) >= len(METHODS)
        assert gap["fills"] == len(METHODS)
        assert gap["markers"] > 5 * len(METHODS)
        assert min(value for band in gap["bands"] for value in band if value is not None) > 0
        looks = {(line["color"], line["dash"], line["symbol"]) for line in gap["lines"].values()}
        assert (
            len(looks)
            == len({color for color, _, _ in looks})
            == len({symbol for _, _, symbol in looks})
            == len(METHODS)
        )

        density = page.chart("l1-k10", "structure")
        assert (density["texts"], density["levels"]) == (["exact optimum: 0.69"], [0.69])
        rank = page.chart("nuclear-k10", "structure")
        assert (rank["texts"], rank["levels"]) == (["exact optimum: 10", "exact optimum: 12"], [10, 12])
        assert rank["fills"] == 2 * len(METHODS)

    def test_output_changes_what_is_plotted(self, page):
        before = page.chart("l1-k10", "gap")["lines"]
        page.choose("l1-k10", "output", "ergodic")
        after = page.chart("l1-k10", "gap")["lines"]
        assert after.keys() == names("ergodic")
        assert after["FeDualEx, ergodic"]["y"] != before["FeDualEx, last"]["y"]
        assert set(page.column("l1-k10", "certificates", 2)) == {"ergodic"}
        page.choose("l1-k10", "output", "all")
        assert page.chart("l1-k10", "gap")["lines"].keys() == {name for output in OUTPUTS for name in names(output)}
        assert page.chart("nuclear-k10", "gap")["lines"].keys() == names("last")

    def test_horizontal_axis_changes_title_and_values(self, page):
        for chart in ("gap", "structure"):
            assert page.chart("nuclear-k10", chart)["xtitle"] == "communication rounds"
        page.choose("nuclear-k10", "x", "megabytes")
        curve = report_data()["panels"][1]["curves"][0]
        for chart in ("gap", "structure"):
            shown = page.chart("nuclear-k10", chart)
            assert shown["xtitle"] == "megabytes communicated"
            assert shown["lines"]["FeDualEx, last"]["x"] == curve["megabytes"] != curve["round"]

    def test_an_unticked_method_disappears_and_comes_back_and_the_zoom_stays(self, page):
        page.run(
            "return Plotly.relayout(document.querySelector('[data-chart=gap]'), {'xaxis.range': [100, 200], 'yaxis.range': [-3, -1]})"
        )
        assert page.chart("l1-k10", "gap")["ranges"] == [[100, 200], [-3, -1]]
        page.toggle("l1-k10", "FedMiP")
        for chart in ("gap", "structure"):
            assert page.chart("l1-k10", chart)["lines"].keys() == names("last") - {"FedMiP, last"}
        assert "FedMiP" not in page.column("l1-k10", "certificates", 1)
        assert page.chart("l1-k10", "gap")["ranges"] == [[100, 200], [-3, -1]]
        page.toggle("l1-k10", "FedMiP")
        assert page.chart("l1-k10", "gap")["lines"].keys() == names("last")
        page.run(
            "return Plotly.relayout(document.querySelector('[data-chart=gap]'), {'xaxis.autorange': true, 'yaxis.autorange': true})"
        )
        assert page.chart("l1-k10", "gap")["ranges"][0][1] > 400

    def test_controls_have_labels_and_answer_to_the_keyboard(self, page):
        assert (
            page.run(
                "return [...document.querySelectorAll('[data-control]')].filter((control) => !control.labels.length).length"
            )
            == 0
        )
        box = page.control("l1-k10", "method", "FeDualEx")
        box.send_keys(" ")
        assert page.chart("l1-k10", "gap")["lines"].keys() == names("last") - {"FeDualEx, last"}

    def test_what_has_no_certificate_is_said_and_never_drawn(self, page):
        gap = page.chart("nuclear-k10", "gap")
        assert set(gap["lines"]["ScaffoldS, last"]["y"]) == {None}
        section = page.driver.find_element("css selector", '.panel[data-name="nuclear-k10"]')
        assert "not certifiable: ScaffoldS (last)" in section.find_element("css selector", "[data-key]").text
        assert page.column("nuclear-k10", "results", 3)[-1] == "not certifiable"
        assert page.column("nuclear-k10", "certificates", 7)[-1] == "psi of y has an unbounded domain"
        for method in METHODS[:-1]:
            page.toggle("nuclear-k10", method)
        assert page.chart("nuclear-k10", "gap")["texts"] == ["not certifiable"]

    def test_results_are_sorted_by_a_click_with_the_missing_ones_last(self, page):
        header = page.driver.find_element("css selector", '.panel[data-name="nuclear-k10"] .results th:nth-child(3)')
        expected = sorted(
            (row["gap"], row["method"], row["output"]) for row in report_data()["panels"][1]["table"] if row["gap"]
        )
        for order, direction in (("ascending", 1), ("descending", -1)):
            header.find_element("css selector", "button").click()
            assert header.get_attribute("aria-sort") == order
            rows = list(
                zip(page.column("nuclear-k10", "results", 1), page.column("nuclear-k10", "results", 2), strict=True)
            )
            assert rows[:24] == [(method, output) for _, method, output in expected[::direction]]
            assert page.column("nuclear-k10", "results", 3)[24:] == ["not certifiable"] * 4

    def test_solutions_show_their_structure(self, page):
        solutions = report_data()["panels"][0]["solutions"]
        for i in (0, 13):
            page.choose("l1-k10", "solution", str(i))
            block = solutions[i]["blocks"][1]
            count = sum(abs(value) > NONZERO for value in block["values"])
            shown = page.chart("l1-k10", "solution-y")
            assert shown["lines"].keys() == {"this output", "exact optimum"}
            assert len(shown["lines"]["this output"]["y"]) == shown["markers"] == count
            caption = page.driver.find_elements("css selector", '.panel[data-name="l1-k10"] .solutions figcaption')[
                1
            ].text
            assert caption.startswith(f"y {count} of 600 nonzero")
        page.choose("nuclear-k10", "solution", "0")
        assert page.chart("nuclear-k10", "solution-x")["markers"] == 20

    def test_claims_carry_their_verdict_in_words(self, page):
        badges = [badge.text for badge in page.driver.find_elements("css selector", "#claims .badge")]
        assert badges == ["✓ agrees", "≈ agrees only if", "✗ does not agree"]
        assert "fedualex experiment run" in page.driver.find_element("css selector", "#repeat pre").text

    def test_no_button_uploads_anything(self, page):
        buttons = page.chart("l1-k10", "gap")["buttons"]
        assert "Save as an image, with a legend" in buttons
        assert not [button for button in buttons if re.search("cloud|studio|share|edit", button or "", re.IGNORECASE)]
        assert page.run("return document.querySelectorAll('.js-plotly-plot a[href^=http]').length") == 0

    @pytest.mark.parametrize("width", [1280, 420])
    def test_nothing_is_wider_than_the_window(self, page, report, width):
        page.open(report, width)
        assert page.run("return document.documentElement.scrollWidth") <= width
        for chart in ("gap", "structure", "solution-x"):
            outer, inner = page.chart("l1-k10", chart)["size"]
            assert 300 < inner <= outer + 1 <= width

    def test_a_page_of_almost_nothing_opens(self, page, tmp_path):
        data = report_data()
        data["claims"] = []
        data["panels"] = [data["panels"][0] | {"exact": None, "curves": [], "table": [], "solutions": [], "notes": []}]
        bare = tmp_path / "bare.html"
        bare.write_text(render(data), encoding="utf-8")
        page.open(bare)
        headings = [heading.text for heading in page.driver.find_elements("css selector", "h2, h3")]
        assert headings == [data["panels"][0]["title"], "Certificates", "Repeat it"]
        assert len(page.column("l1-k10", "certificates", 1)) == len(METHODS) * len(OUTPUTS)
