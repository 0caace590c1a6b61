"""The page in a real browser: what it shows first, its charts by pointer and keyboard, narrow and dark."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import Page, started_browser, watched
from support.committee_data import fitted, full_training
from support.report_data import METHODS, OUTPUTS, model_data, report_data

from fedualex.palette import styles
from fedualex.report.page import render
from fedualex.runtime.outputs import NONZERO

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "page.html"
    file.write_text(render(report_data()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with started_browser() as page:
        yield page


@pytest.fixture
def page(browser: Page, report: Path) -> Iterator[Page]:
    """The page freshly opened."""
    with watched(browser):
        browser.open(report)
        yield browser


def answers(output="polished"):
    return {f"{method}, {output}" for method in METHODS}


def test_the_answer_is_what_is_seen_first(page):
    assert page.find("header .answer").text == report_data()["headline"]
    assert page.find('.panel[data-name="l1-k10"] .headline').text.startswith("FeDualEx is certified within ")
    assert page.texts('.panel[data-name="l1-k10"] .findings li') == report_data()["panels"][0]["findings"]
    places = "return ['.headline', '[data-chart=gap]', '.findings'].map((part) => document.querySelector(`.panel ${part}`).getBoundingClientRect().y)"
    assert page.run(places) == sorted(page.run(places))
    gap = page.chart("l1-k10", "gap")
    assert gap["series"].keys() == answers()
    assert gap["levels"] == ["tolerance 0.001"]
    assert page.chart("nuclear-k10", "gap")["levels"] == []


def test_curves_bands_and_exact_optima_are_drawn(page):
    count = len(report_data()["panels"][0]["curves"][0]["round"])
    gap = page.chart("l1-k10", "gap")
    assert gap["lines"] == dict.fromkeys(answers(), count)
    assert gap["bands"] == dict.fromkeys(answers(), 2 * count)
    assert gap["marks"] >= 8 * len(METHODS)
    for one in gap["series"].values():  # a bound is never shown below itself
        shown = [float(text.removeprefix("≤ ").split(" ")[0].replace("−", "-")) for text in one["text"]]
        assert all(mean <= text <= 1.001 * mean for text, mean in zip(shown, one["y"], strict=True))
    looks = {name.split(",")[0]: one["look"] for name, one in gap["series"].items()}
    wanted = styles({name: name for name in METHODS})
    assert looks == {name: json.loads(json.dumps(look._asdict())) for name, look in wanted.items()}
    assert page.chart("l1-k10", "structure")["levels"] == ["exact optimum 0.69"]
    for block, exact in (("x", 10), ("y", 12)):
        rank = page.chart("nuclear-k10", f"structure-{block}")
        assert rank["levels"] == [f"exact optimum {exact}"]
        assert rank["bands"].keys() == answers()


def test_single_runs_have_no_deviation_and_no_band(page, tmp_path):
    data = report_data()
    for curve in data["panels"][0]["curves"]:
        for series in (curve["gap"], *curve["structure"].values()):
            series["std"] = [None] * len(series["mean"])
    for row in data["panels"][0]["table"]:
        row["gap_std"] = None
        row["structure"] = row["structure"].split(" ")[0]
    file = tmp_path / "single.html"
    file.write_text(render(data), encoding="utf-8")
    page.open(file)
    assert page.chart("l1-k10", "gap")["bands"] == {}
    section = page.find('.panel[data-name="l1-k10"]').text
    assert "±" not in section
    assert not any("±" in text for one in page.chart("l1-k10", "gap")["series"].values() for text in one["text"])


def test_output_changes_what_is_plotted_and_the_zoom_stays(page):
    page.run("zoomTo(document.querySelector('[data-chart=gap]'), {x: [100, 200], y: [0.001, 0.1]})")
    before = page.chart("l1-k10", "gap")
    page.choose("l1-k10", "output", "ergodic")
    after = page.chart("l1-k10", "gap")
    assert after["series"].keys() == set(METHODS)
    assert after["series"]["FeDualEx"]["y"] != before["series"]["FeDualEx, polished"]["y"]
    assert after["view"] == before["view"] == {"x": [100, 200], "y": [0.001, 0.1]}
    assert set(page.column("l1-k10", "certificates", 2)) == {"ergodic"}
    assert page.chart("nuclear-k10", "gap")["series"].keys() == answers()
    page.find('.panel[data-name="l1-k10"] [aria-label^="Show all"]').click()
    assert page.chart("l1-k10", "gap")["view"]["x"][1] > 400


def test_horizontal_axis_changes_title_and_values_and_forgets_the_zoom(page):
    page.run("zoomTo(document.querySelector('.panel[data-name=nuclear-k10] [data-chart=gap]'), {x: [1, 2], y: [1, 2]})")
    page.choose("nuclear-k10", "x", "megabytes")
    curve = report_data()["panels"][1]["curves"][3]
    for chart in ("gap", "structure-x", "structure-y"):
        shown = page.chart("nuclear-k10", chart)
        assert shown["xtitle"] == "megabytes communicated"
        assert shown["series"]["FeDualEx, polished"]["x"] == curve["megabytes"] != curve["round"]
        assert shown["view"]["x"][1] > 50


def test_an_unticked_method_disappears_and_comes_back(page):
    page.toggle("l1-k10", "FedMiP")
    for chart in ("gap", "structure"):
        assert page.chart("l1-k10", chart)["lines"].keys() == answers() - {"FedMiP, polished"}
    assert "FedMiP" not in page.column("l1-k10", "certificates", 1)
    page.toggle("l1-k10", "FedMiP")
    assert page.chart("l1-k10", "gap")["lines"].keys() == answers()


def test_a_drag_zooms_and_a_double_click_shows_all(page):
    from selenium.webdriver import ActionChains

    picture = page.picture("l1-k10", "gap")
    page.run("arguments[0].scrollIntoView({block: 'center'})", picture)
    whole = page.chart("l1-k10", "gap")["view"]
    ActionChains(page.driver).move_to_element_with_offset(picture, -60, -80).click_and_hold().move_by_offset(
        120, 90
    ).release().perform()
    view = page.chart("l1-k10", "gap")["view"]
    assert whole["x"][0] < view["x"][0] < view["x"][1] < whole["x"][1]
    assert whole["y"][0] < view["y"][0] < view["y"][1] < whole["y"][1]
    ActionChains(page.driver).double_click(page.picture("l1-k10", "gap")).perform()
    assert page.chart("l1-k10", "gap")["view"] == whole
    ActionChains(page.driver).move_to_element(page.picture("l1-k10", "gap")).perform()
    assert "communication rounds: " in page.chart("l1-k10", "gap")["tip"]


def test_charts_answer_to_the_keyboard_and_have_a_table(page):
    from selenium.webdriver.common.keys import Keys

    unlabeled = "return [...document.querySelectorAll('[data-control]')].filter((one) => !one.labels.length).length"
    assert page.run(unlabeled) == 0
    gap = page.chart("l1-k10", "gap")
    assert gap["label"].startswith("Certified bound on the duality gap of FeDualEx, polished")
    whole = gap["view"]
    page.picture("l1-k10", "gap").send_keys("+")
    zoomed = page.chart("l1-k10", "gap")["view"]
    assert zoomed["x"][1] - zoomed["x"][0] == pytest.approx((whole["x"][1] - whole["x"][0]) / 2)
    page.driver.switch_to.active_element.send_keys("0")  # the chart is still in focus
    assert page.chart("l1-k10", "gap")["view"] == whole
    for _ in range(3):
        page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    curve = report_data()["panels"][0]["curves"][3]
    tip = page.chart("l1-k10", "gap")["tip"].splitlines()
    assert tip[0] == f"communication rounds: {curve['round'][2]}"
    assert len(tip) == 1 + len(METHODS)
    shown = gap["series"]["FeDualEx, polished"]["text"][2]
    assert f"FeDualEx, polished: {shown}" in tip
    assert float(shown.removeprefix("≤ ").split(" ")[0]) >= curve["gap"]["mean"][2]  # never below the bound
    details = page.find('.panel[data-name="l1-k10"] .numbers')
    details.find_element("css selector", "summary").send_keys(Keys.ENTER)
    rows = page.texts('.panel[data-name="l1-k10"] .numbers tbody tr')
    assert len(rows) == len(curve["round"])
    assert rows[2].startswith(f"{curve['round'][2]} {shown} ")
    page.control("l1-k10", "method", "FeDualEx").send_keys(" ")
    assert "FeDualEx" not in "".join(page.texts('.panel[data-name="l1-k10"] .numbers th')).split("FeDualExCorrected")[0]


def test_what_has_no_certificate_is_said_and_never_drawn(page):
    assert "ScaffoldS, polished" not in {name for name, n in page.chart("nuclear-k10", "gap")["lines"].items() if n}
    assert "not certifiable: ScaffoldS (polished)" in page.find('.panel[data-name="nuclear-k10"] [data-key]').text
    assert page.column("nuclear-k10", "results", 3)[-1] == "not certifiable"
    assert page.column("nuclear-k10", "certificates", 8)[-1] == "psi of y has an unbounded domain"
    for method in METHODS[:-1]:
        page.toggle("nuclear-k10", method)
    assert page.chart("nuclear-k10", "gap")["message"] == "not certifiable"


def test_results_have_a_status_for_each_output_and_are_sorted_by_a_click(page):
    assert set(page.column("l1-k10", "results", 4)) == {"CERTIFIED"}
    assert page.column("l1-k10", "results", 2)[:4] == ["last", "ergodic", "client_average", "polished ★"]
    header = page.find('.panel[data-name="nuclear-k10"] .results th:nth-child(3)')
    rows = [row for row in report_data()["panels"][1]["table"] if row["gap"]]
    expected = sorted((row["gap"], row["method"], row["output"] + " ★" * row["answer"]) for row in rows)
    for order, direction in (("ascending", 1), ("descending", -1)):
        header.find_element("css selector", "button").click()
        assert header.get_attribute("aria-sort") == order
        shown = [page.column("nuclear-k10", "results", i) for i in (1, 2, 3)]
        assert list(zip(shown[0], shown[1], strict=True))[:24] == [row[1:] for row in expected[::direction]]
        assert shown[2][24:] == ["not certifiable"] * 4


def test_solutions_show_their_structure(page):
    solutions = report_data()["panels"][0]["solutions"]
    assert page.control("l1-k10", "solution").get_attribute("value") == "3"  # FeDualEx, polished
    for i in (0, 13):
        page.choose("l1-k10", "solution", str(i))
        block = solutions[i]["blocks"][1]
        count = sum(abs(value) > NONZERO for value in block["values"])
        shown = page.chart("l1-k10", "solution-y")
        assert shown["series"].keys() == {"this output", "exact optimum"}
        assert len(shown["series"]["this output"]["y"]) == count
        assert shown["marks"] >= count
        assert f"{count} of 600 nonzero" in page.texts('.panel[data-name="l1-k10"] .solutions figcaption')[1]
    page.choose("nuclear-k10", "solution", "0")
    assert page.chart("nuclear-k10", "solution-x")["marks"] == 20


def test_claims_carry_their_verdict_and_each_reading_what_it_found(page):
    assert page.texts("#claims .badge") == ["✓ agrees", "≈ agrees only if", "✗ does not agree"]
    page.find("#claims li:nth-child(2) summary").click()
    rows = page.texts("#claims li:nth-child(2) tbody tr")
    assert rows == [
        "last point ✓ holds: gap 0.1 ± 0.01 ✓ holds: gap 0.1 ± 0.01",
        "ergodic average ✗ does not: gap 1.1 ± 0.01 ✗ does not: gap 1.1 ± 0.01",
    ]
    assert "fedualex experiment run" in page.find("#repeat pre").text


def test_the_model_has_signed_named_coefficients_and_clients(page, tmp_path):
    data = report_data()
    data["panels"] = [data["panels"][0] | {"model": model_data()}]
    file = tmp_path / "model.html"
    file.write_text(render(data), encoding="utf-8")
    page.open(file)
    assert page.column("l1-k10", "coefficients", 1)[:2] == ["feature 0", "feature 1"]
    assert page.column("l1-k10", "coefficients", 3)[:2] == ["+2.000", "−1.746"]
    assert len(page.column("l1-k10", "coefficients", 1)) == 30
    page.find(".more").click()
    assert len(page.column("l1-k10", "coefficients", 1)) == 40
    sides = "return [...document.querySelectorAll('.bar')].slice(0, 2).map((bar) => [bar.firstChild.className, Math.round(bar.firstChild.getBoundingClientRect().x - bar.getBoundingClientRect().x - bar.clientWidth / 2)])"
    (plus, at), (minus, left) = page.run(sides)
    assert (plus, at, minus) == ("plus", 0, "minus")
    assert left < -50
    assert page.column("l1-k10", "measures", 1) == ["all clients", "north", "south", "west"]
    assert page.column("l1-k10", "measures", 3) == ["30", "20", "9", "1"]
    assert page.column("l1-k10", "measures", 4) == ["0.8800", "0.9000", "0.8000", "1.000"]
    assert page.column("l1-k10", "measures", 5)[-1] == "–"
    assert page.texts(".measures strong") == ["0.8000", "0.8500"]
    assert not page.driver.find_elements("css selector", ".solutions")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
def test_nothing_is_wider_than_the_window_and_colors_follow_the_theme(page, report, width, theme):
    page.open(report, width, theme)
    assert page.run("return document.documentElement.scrollWidth") <= width
    for chart in ("gap", "structure", "solution-x"):
        outer, inner = page.chart("l1-k10", chart)["size"]
        assert 300 < inner <= outer + 1 <= width
    look = styles({name: name for name in METHODS})["FeDualEx"]
    curve = '.series[data-name="FeDualEx, polished"]'
    for shown in (theme, {"light": "dark", "dark": "light"}[theme]):
        color = look.color if shown == "light" else look.dark
        assert page.color(curve) == tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
        page_color, ink = page.color("body", "backgroundColor"), page.color("body")
        assert (sum(page_color) > sum(ink)) == (shown == "light")
        page.find("#theme").click()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pixels_of_the_picture_have_the_colors_of_the_curves(page, report, theme):
    """What is on the screen, not what the page says of itself."""
    import io

    import matplotlib.image

    page.open(report, 1400, theme)
    picture = page.picture("l1-k10", "gap")
    page.run("arguments[0].scrollIntoView({block: 'center'})", picture)
    pixels = (matplotlib.image.imread(io.BytesIO(picture.screenshot_as_png))[:, :, :3] * 255).round().astype(int)
    looks = styles({name: name for name in METHODS})
    for name in METHODS:
        color = looks[name].color if theme == "light" else looks[name].dark
        wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        assert (abs(pixels - wanted).max(axis=2) <= 8).sum() > 100, name
    background = [255, 255, 255] if theme == "light" else [0x14, 0x18, 0x1C]
    assert (abs(pixels - background).max(axis=2) <= 2).mean() > 0.6


def test_a_page_of_almost_nothing_opens(page, tmp_path):
    data = report_data()
    data["claims"] = []
    bare = {"exact": None, "curves": [], "answers": [], "table": [], "solutions": [], "notes": [], "findings": []}
    data["panels"] = [data["panels"][0] | bare]
    file = tmp_path / "bare.html"
    file.write_text(render(data), encoding="utf-8")
    page.open(file)
    assert page.texts("h2, h3") == [data["panels"][0]["title"], "Certificates", "Repeat it"]
    assert len(page.column("l1-k10", "certificates", 1)) == len(METHODS) * len(OUTPUTS)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_of_a_model_fits_and_keeps_the_optimization_behind_a_fold(page, tmp_path, width, theme):
    data = report_data() | {"fitted": fitted(full_training(["a", "b" * 90, "c"]))}
    file = tmp_path / "model.html"
    file.write_text(render(data), encoding="utf-8")
    page.open(file, width, theme)
    assert page.run("return document.documentElement.scrollWidth") <= width
    outside = """return [...document.querySelectorAll(".plot text, .plot path, .row path, .row circle, .forest td")]
      .filter((node) => node.checkVisibility())
      .map((node) => node.getBoundingClientRect())
      .filter((box) => box.width && (box.left < 0 || box.right > innerWidth)).length"""
    assert page.run(outside) == 0
    assert page.color(".plot text", "fill") == page.color("body", "color")
    assert not page.find('.panel [data-chart="gap"]').is_displayed()
    page.find("#optimization summary").click()
    assert page.chart("l1-k10", "gap")["size"][0] > 250
    assert page.chart("l1-k10", "gap")["lines"].keys() == answers()
