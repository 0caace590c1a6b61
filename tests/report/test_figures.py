"""Results collected into curves, rows and panels, and drawn."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.paper_runs import NUCLEAR, OUTPUTS, as_the_paper_says, write_experiment, write_run

from fedualex.palette import styles
from fedualex.report import figures, write_figures, write_report
from fedualex.report.figures import caption
from fedualex.report.panels import curve, experiment_panel, row
from fedualex.runs import folder


def by_seed(numbers, lengths, tmp_path):
    """One stored run for each seed, of these many records; numbers(seed, output, round) is (gap, density, ranks)."""
    runs = []
    for seed, length in enumerate(lengths):
        rounds = [4 * i for i in range(length)]
        write_run(tmp_path / f"seed-{seed}", "A", lambda output, r, seed=seed: numbers(seed, output, r), rounds)
        runs.append(folder.load(tmp_path / f"seed-{seed}"))
    return runs


def test_a_curve_is_mean_and_deviation_over_seeds(tmp_path):
    rng = np.random.default_rng(0)
    gaps, densities = rng.uniform(size=(2, 3, 5)), rng.uniform(size=(2, 3, 5))

    def numbers(seed, output, r):
        i, j = OUTPUTS.index(output), r // 4
        return gaps[i, seed, j], densities[i, seed, j], None

    runs = by_seed(numbers, (5, 4, 5), tmp_path)  # one seed broke down: only what all have is averaged
    for i, output in enumerate(("last", "ergodic")):
        found = curve("A", output, runs)
        assert found["round"] == [0, 4, 8, 12]
        assert found["gap"]["mean"] == pytest.approx(gaps[i, :, :4].mean(0))
        assert found["gap"]["std"] == pytest.approx(gaps[i, :, :4].std(0))
        assert list(found["structure"]) == ["all"]
        assert found["structure"]["all"]["mean"] == pytest.approx(densities[i, :, :4].mean(0))
        assert found["structure"]["all"]["std"] == pytest.approx(densities[i, :, :4].std(0))
        assert found["seconds"] == [1, 3, 5, 7]
        assert found["megabytes"] == pytest.approx([0, 0.012, 0.024, 0.036])


def test_only_figures_need_matplotlib(tmp_path, monkeypatch):
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, module, None)
    write_run(tmp_path / "run", "A", lambda output, r: (1 / (1 + r), 0.5, None), [0, 4, 8])
    assert write_report(tmp_path / "run").exists()
    with pytest.raises(ImportError, match=r"a figure needs matplotlib: pip install 'fedualex\[figures\]'"):
        write_figures(tmp_path / "run")


def test_a_curve_of_ranks(tmp_path):
    ranks = np.array([[[20, 20], [12, 11], [10, 10]], [[20, 20], [10, 14], [10, 11]]])
    runs = by_seed(lambda seed, output, r: (1.0, None, ranks[seed, r // 4].tolist()), (3, 3), tmp_path)
    structure = curve("A", "last", runs)["structure"]
    assert list(structure) == ["x", "y"]
    for i, block in enumerate("xy"):
        assert structure[block]["mean"] == ranks[:, :, i].mean(0).tolist()
        assert structure[block]["std"] == ranks[:, :, i].std(0).tolist()
    assert row("A", "last", runs, None)["structure"] == "10 ± 0 / 10.5 ± 0.5"


def test_what_is_not_certified_has_no_number(tmp_path):
    runs = by_seed(lambda seed, output, r: (None if seed else 1.0, 0.5, None), (3, 3), tmp_path)
    assert curve("A", "last", runs)["gap"] == {"mean": [None] * 3, "std": [None] * 3}
    assert curve("A", "last", runs[:1])["gap"] == {"mean": [1.0] * 3, "std": [None] * 3}  # one run has no deviation
    found = row("A", "last", runs, None)
    assert (found["gap"], found["gap_std"], found["distance"]) == (None, None, None)
    assert found["structure"] == "0.500 ± 0.000"


def test_a_row_is_mean_and_deviation_over_seeds(tmp_path):
    gaps, densities = np.array([0.5, 0.25, 1.0]), np.array([0.7, 0.75, 0.65])
    runs = by_seed(lambda seed, output, r: (gaps[seed], densities[seed], None), (3, 3, 3), tmp_path)
    found = row("A", "last", runs, {"value": 2.125})
    assert (found["gap"], found["gap_std"]) == (pytest.approx(gaps.mean()), pytest.approx(gaps.std()))
    assert found["structure"] == f"{densities.mean():.3f} ± {densities.std():.3f}"
    assert found["distance"] == pytest.approx(np.mean(np.abs(2 + gaps / 2 - 2.125)))
    assert (found["method"], found["steps"], found["output"]) == ("A", "eta_s 1, eta_c 0.1", "last")
    assert (found["seconds"], found["megabytes"]) == (5.0, pytest.approx(0.024))
    assert (found["status"], found["stop"], found["answer"]) == ("CERTIFIED", "MAX_ROUNDS", True)
    alone = row("A", "last", runs[:1], None)
    assert (alone["gap"], alone["gap_std"], alone["distance"]) == (0.5, None, None)
    assert alone["structure"] == "0.700"


def test_an_experiment_is_one_panel(tmp_path):
    write_experiment(tmp_path, "nuclear-k1", as_the_paper_says)
    panel = experiment_panel(tmp_path / "nuclear-k1")
    assert panel["structure"] == "rank"
    assert list(dict.fromkeys(one["method"] for one in panel["curves"])) == [*NUCLEAR]
    assert len(panel["curves"]) == len(panel["table"]) == 2 * len(NUCLEAR)
    assert "over 2 seeds" in " ".join(panel["notes"])
    blocks = panel["solutions"][0]["blocks"]
    assert [(block["kind"], block["values"]) for block in blocks] == [("singular values", [0.5, 0.3])] * 2


@pytest.fixture
def panels(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says)
    write_experiment(tmp_path, "nuclear-k1", as_the_paper_says)
    exact = {"value": 2.0, "gap": 0.0, "how": "by hand", "density": 0.7, "rank": [10, 10]}
    return {name: experiment_panel(tmp_path / name) | {"exact": exact} for name in ("l1-k1", "nuclear-k1")}


def looks(panel):
    return styles(panel["methods"])


SERIES = {"round": [1, 2], "clients": [0.6, 0.5], "lowest": [0.5, 0.4], "highest": [0.7, 0.6], "server": [0.9, 0.8]}
DRAWN = {
    "density": lambda panels, stem: draw(panels["l1-k1"], "last", stem),
    "ranks": lambda panels, stem: draw(panels["nuclear-k1"], "ergodic", stem),
    "answers": lambda panels, stem: draw(panels["l1-k1"], figures.ANSWER, stem),
    "megabytes": lambda panels, stem: figures.draw_gap(panels["l1-k1"], "last", looks(panels["l1-k1"]), stem),
    "averaging": lambda panels, stem: figures.draw_averaging({"A": SERIES, "B": SERIES}, 0.7, stem),
    "averaging of one": lambda panels, stem: figures.draw_averaging({"A": SERIES}, None, stem),
}


def draw(panel, output, stem, **options):
    return figures.draw(panel, output, looks(panel), stem, **options)


def figure_of(panel, monkeypatch, output="last", **options):
    """The figure itself, not its files."""
    kept = []
    monkeypatch.setattr(figures, "save", lambda figure, stem: kept.append(figure) or [])
    draw(panel, output, Path("never written"), **options)
    return kept[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DRAWN)
def test_figures_are_files_and_always_the_same(panels, tmp_path, name):
    png, pdf = DRAWN[name](panels, tmp_path / "figures" / "one")
    assert (png.name, pdf.name) == ("one.png", "one.pdf")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert b"/Type3" not in pdf.read_bytes()  # letters stay letters
    width, height = (int.from_bytes(png.read_bytes()[i : i + 4], "big") for i in (16, 20))
    one_column = name in ("megabytes", "averaging of one")
    assert width == (1005 if one_column else 2070)  # 3.35 and 6.9 inches
    assert 700 < height < 900
    assert png.stat().st_size > 10_000
    assert pdf.stat().st_size > 5_000
    again = DRAWN[name](panels, tmp_path / "elsewhere" / "two")
    assert again[0].read_bytes() == png.read_bytes()
    assert again[1].read_bytes() == pdf.read_bytes()


@pytest.mark.slow
def test_other_numbers_are_another_figure(panels, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "DPI", 50)
    panel = panels["l1-k1"]
    (png, _) = draw(panel, "last", tmp_path / "last")
    before = png.read_bytes()
    panel["curves"][0]["gap"]["mean"][-1] *= 2
    (png, _) = draw(panel, "last", tmp_path / "last")
    assert png.read_bytes() != before


def test_letters_fit_a_paper_ticks_are_whole_and_methods_keep_their_colors(panels, monkeypatch):
    panel = panels["nuclear-k1"] | {"tol": 0.05}
    figure = figure_of(panel, monkeypatch, mark="a small instance")
    figure.canvas.draw()
    gap, *ranks = figure.axes
    for axis in figure.axes:
        assert all(float(tick).is_integer() for tick in axis.get_xticks())
        sizes = [label.get_fontsize() for label in (axis.xaxis.label, *axis.get_xticklabels(), *axis.get_yticklabels())]
        assert set(sizes) <= {7.0, 8.0}
    for axis in ranks:
        assert all(float(tick).is_integer() for tick in axis.get_yticks())
        assert [text.get_text() for text in axis.texts] == ["exact optimum 10"]
    assert [text.get_text() for text in gap.texts] == ["tolerance 0.05"]
    assert figure.get_suptitle() == "a small instance"
    colors = {line.get_label(): line.get_color() for line in gap.lines if not line.get_label().startswith("_")}
    assert colors == {label: look.color for label, look in looks(panel).items()}


def test_a_caption_has_the_settings(panels):
    text = caption(panels["l1-k1"] | {"tol": 0.02}, "last", "round", "a small instance")
    for part in (
        "l1-k1 (by hand).",
        "the output last",
        "against rounds, and its density",
        "FeDualEx eta_s 1, eta_c 0.1",
    ):
        assert part in text
    assert "bands one standard deviation" in text
    assert "Dotted: the tolerance 0.02." in text
    assert text.endswith("This is a small instance.")
    answers = caption(panels["l1-k1"], figures.ANSWER, "megabytes", "")
    assert "each method's answer (FeDualEx: last, " in answers
    assert "against megabytes carried by the network." in answers


@pytest.mark.slow
def test_all_figures_of_an_experiment(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says, quick=True)
    files = write_figures(tmp_path / "l1-k1")
    stems = {f"l1-k1-{output}{x}" for output in ("answer", "last", "ergodic") for x in ("", "-exchanges", "-megabytes")}
    assert {file.name for file in files} == {"captions.md"} | {f"{s}.{kind}" for s in stems for kind in ("png", "pdf")}
    captions = files[-1].read_text()
    assert captions.count("This is a small instance (--quick), not the paper's sizes.") == len(stems)


@pytest.mark.parametrize("gaps", [[None, None, None], [0.0, 0.0, 0.0], [1.0, None, -1e-17]])
def test_gaps_that_a_logarithmic_axis_cannot_show(panels, monkeypatch, gaps):
    for one in panels["l1-k1"]["curves"]:
        one["gap"] = {"mean": gaps, "std": [None if gap is None else 0.0 for gap in gaps]}
    figure = figure_of(panels["l1-k1"], monkeypatch)
    figure.canvas.draw()  # without a warning, which would be an error here
    assert figure.axes[0].get_yscale() == ("log" if any(gap and gap > 0 for gap in gaps) else "linear")
