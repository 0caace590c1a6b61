"""What a run is in the hand: its text, its table, its frame, its figure, its log; methods side by side."""

import dataclasses
import logging
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from support.games import GAME

import fedualex as fx
from fedualex.display import round_up
from fedualex.report.collect import collect
from fedualex.report.figures import caption
from fedualex.runs import folder
from fedualex.runtime.run import columns
from fedualex.verification.verify import verify

SIZES = {"clients": 3, "local_steps": 2, "rounds": 12, "noise": fx.GaussianNoise(0.1), "record_every": 2}


@pytest.fixture(scope="module")
def run():
    return fx.solve(GAME, fx.FeDualEx(0.3), tol=1e-6, **SIZES)


@pytest.fixture(scope="module")
def comparison():
    return fx.compare(GAME, {"large": fx.FeDualEx(0.3), "small": fx.FeDualEx(0.03)}, seeds=3, **SIZES)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    pyplot.close("all")


class Cells(HTMLParser):
    """The texts of a page, and the names of its elements."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.elements = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        assert not attrs, "nothing is loaded or styled from elsewhere"
        self.elements.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


# --- a run ----------------------------------------------------------------------------------------------------------


def test_the_repr_of_a_run_is_one_line_with_its_numbers(run):
    assert re.fullmatch(r"Run\(CERTIFIED: certified gap <= \S+ \(.+\), 12 exchanges, \d+\.\d s\)", repr(run))
    assert f"certified gap <= {round_up(run.gap)}" in repr(run)
    assert repr(run.outputs["last"]).startswith("Output(last: CERTIFIED, certified gap <= ")
    broken = dataclasses.replace(run, outputs={"last": run.outputs["last"].withdraw("too <far>")}, output="last")
    assert repr(broken).startswith("Run(UNCERTIFIED: not certifiable: too <far>, 12 exchanges")
    assert "too &lt;far&gt;" in broken._repr_html_()
    assert "<far>" not in broken._repr_html_()


def test_a_notebook_shows_the_outputs_and_the_sentence(run):
    page = Cells(run._repr_html_())
    assert page.elements == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    assert str(run) in page.texts
    for name, output in run.outputs.items():
        starred = f"{output.label} *"
        assert (starred in page.texts) == (name == run.output)
        assert round_up(output.gap) in page.texts


def test_the_frame_has_a_row_for_each_record(run):
    frame = run.to_frame()
    assert frame["round"].tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert frame["rank_last"].isna().all()
    assert all(kind.kind in "if" for kind in frame.dtypes)
    np.testing.assert_array_equal(frame["gap_last"], run.history["gap_last"].astype(float))


def test_ranks_have_a_column_for_each_block(run):
    """Also where a record lacks the output of another: numpy makes no array of None and pairs."""
    records = [{"round": 0, "gap_last": None}, {"round": 1, "gap_last": 0.5, "rank_last": (2, 3)}]
    frame = dataclasses.replace(run, history=columns(records)).to_frame()
    assert frame.columns.tolist() == ["round", "gap_last", "rank_last_0", "rank_last_1"]
    assert frame.iloc[1].tolist() == [1, 0.5, 2, 3]
    assert frame.iloc[0, 1:].isna().all()
    whole = columns([{"rank_last": (2, 3)}, {"rank_last": (1, 3)}])["rank_last"]
    assert whole.tolist() == [[2, 3], [1, 3]]


@pytest.mark.parametrize("x", ["exchanges", "rounds", "seconds", "bytes"])
def test_a_plot_has_the_gap_of_each_output(run, x):
    ax = run.plot(x)
    lines = {line.get_label(): line for line in ax.lines}
    assert lines.keys() == {"last", "ergodic", "client_average", "polished"}
    np.testing.assert_array_equal(lines["last"].get_ydata(), run.history["gap_last"].astype(float))
    if x == "bytes":
        assert lines["last"].get_xdata()[-1] == run.history["bytes_up"][-1] + run.history["bytes_down"][-1]
    assert ax.get_yscale() == "log"
    assert run.plot(x, ax=ax) is ax


def test_a_plot_refuses_what_it_cannot_draw(run):
    with pytest.raises(ValueError, match=r"x must be one of 'exchanges', 'rounds', 'seconds', 'bytes', got 'round'"):
        run.plot("round")
    gaps = {key: np.array([None] * 7) for key in run.history if key.startswith("gap_")}
    withdrawn = {"last": run.outputs["last"].withdraw("no bounded domain")}
    nothing = dataclasses.replace(run, history=run.history | gaps, outputs=withdrawn, output="last")
    with pytest.raises(ValueError, match="there is no certified gap to plot: no bounded domain"):
        nothing.plot()
    with pytest.raises(ValueError, match="there is no certified gap to plot"):
        dataclasses.replace(nothing, history={}).plot()


@pytest.mark.slow
def test_the_repr_of_what_tune_and_sweep_return_is_short():
    tuned = fx.tune(GAME, fx.FeDualEx(), grid={"eta_c": [0.03, 0.3]}, **SIZES)
    assert repr(tuned) == f"Tuned(FeDualEx with eta_c=0.3: certified gap <= {round_up(tuned.score)}, best of 2)"
    assert "eta_c=0.3 *" in Cells(tuned._repr_html_()).texts
    (point,) = fx.sweep(GAME, fx.FeDualEx(), grid={"eta_c": [0.3]}, **SIZES)
    assert len(repr(point)) < 200


# --- methods side by side -------------------------------------------------------------------------------------------


def test_a_comparison_has_a_run_for_each_method_and_seed(comparison, run):
    assert {label: len(runs) for label, runs in comparison.runs.items()} == {"large": 3, "small": 3}
    np.testing.assert_array_equal(comparison.runs["large"][0].outputs["last"].z.x, run.outputs["last"].z.x)
    sentence, header, *rows = repr(comparison).splitlines()
    assert "3 seeds" in sentence
    assert header.split("  ")[0] == "method"
    gaps = [one.gap for one in comparison.runs["large"]]
    shown = f"{round_up(np.median(gaps))} ({round_up(min(gaps))}..{round_up(max(gaps))})"
    assert rows[0].split(maxsplit=1)[0] == "large"
    assert shown in rows[0]
    assert shown in Cells(comparison._repr_html_()).texts


def test_the_frame_and_the_plot_of_a_comparison(comparison):
    frame = comparison.to_frame()
    assert frame.columns[:2].tolist() == ["method", "seed"]
    assert frame.groupby(["method", "seed"]).size().tolist() == [7] * 6
    with pytest.raises(ValueError, match=r"x must be one of 'exchanges', .*, got 'gap'"):
        comparison.plot("gap")
    broken = [dataclasses.replace(one, history={}) for one in comparison.runs["small"]]
    other = dataclasses.replace(comparison, runs=comparison.runs | {"small": broken})
    assert [len(line.get_xdata()) for line in other.plot().lines] == [7, 0]
    assert len(other.to_frame()) == 3 * 7
    ax = comparison.plot("rounds")
    assert [line.get_label() for line in ax.lines] == ["large", "small"]
    assert len(ax.collections) == 2
    smallest = frame[frame["method"] == "large"].filter(like="gap_").min(axis=1).to_numpy().reshape(3, 7)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.median(smallest, axis=0))


def test_a_comparison_says_whose_steps_nobody_tuned(comparison, tmp_path):
    assert "untuned" not in repr(comparison)
    methods = {"ours": fx.FeDualEx(), "given": fx.FeDualEx(0.3), "other": fx.FedMiP()}
    found = fx.compare(GAME, methods, clients=3, rounds=4, noise=fx.GaussianNoise(0.1))
    sentence = (
        "The step sizes of ours and other are theory's defaults and untuned: fx.tune(problem, method, "
        "rounds=...) looks for better ones."
    )
    assert repr(found).splitlines()[-1] == sentence
    assert sentence in " ".join(Cells(found._repr_html_()).texts)
    labels = [line.get_label() for line in found.plot().lines]
    assert labels == ["ours (untuned steps)", "given", "other (untuned steps)"]
    found.report(tmp_path / "out")
    panel = collect(tmp_path / "out")["panels"][0]
    assert panel["findings"][-1] == sentence
    assert sentence in caption(panel, "last", "round", "")


def test_the_report_of_a_comparison_is_made_of_run_folders(comparison, tmp_path):
    page = comparison.report(tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    assert "Mean and standard deviation over 3 seeds" in page.read_text()
    stored = folder.load(tmp_path / "out" / "small" / "seed-2")
    assert stored.label == "small"
    assert stored.manifest["configuration"]["problem"].keys() == {"object"}
    assert stored.manifest["configuration"]["method"] == {"name": "FeDualEx", "eta_c": 0.03, "eta_s": 1.0}
    assert stored.manifest["configuration"]["run"]["noise"] == 0.1
    result = verify(tmp_path / "out")
    assert result.headline == "NOT FULLY CHECKED: nothing differs"
    unchecked = {check.what for one in result.runs for check in one.checks if not check.agrees}
    assert all("the problem was made in Python, and no file names it" in what for what in unchecked)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    with pytest.raises(ValueError, match="not a folder that fedualex wrote"):
        comparison.report(tmp_path / "photos")


@pytest.mark.parametrize(
    ("methods", "options", "refusal"),
    [
        ([], {}, "methods must be methods by label such as"),
        (fx.FeDualEx(), {}, "methods must be methods by label such as"),
        ({"a": 1}, {}, r"methods\['a'\] must be a method such as"),
        ({"": fx.FeDualEx()}, {}, "methods must have labels that are text, got ''"),
        ([fx.FeDualEx()], {"seeds": 0}, "seeds must be a whole number >= 1, got 0"),
        ([fx.FeDualEx()], {"seeds": np.array(2.0)}, "seeds must be a whole number >= 1, got array"),
        ([fx.FeDualEx()], {"seeds": b"12"}, "seeds must be a whole number >= 1, got b'12'"),
        ([fx.FeDualEx()], {"seeds": (1, 1)}, "seeds must be a number of seeds, or different seeds"),
        ([fx.FeDualEx()], {"seed": 1}, "seed is of one run: give seeds="),
        ([fx.FeDualEx()], {"checkpoint": "run.npz"}, "checkpoint is of one run"),
        ([fx.FeDualEx()], {"sedes": 1}, "there is no option 'sedes'; did you mean 'seeds'"),
    ],
)
def test_what_cannot_be_compared_is_refused(methods, options, refusal):
    with pytest.raises((TypeError, ValueError), match=refusal):
        fx.compare(GAME, methods, **{"rounds": 2, **options})


# --- logging --------------------------------------------------------------------------------------------------------


def test_a_run_says_what_it_does_to_whoever_listens(caplog, tmp_path):
    caplog.set_level(logging.DEBUG, "fedualex")
    options = SIZES | {"checkpoint": tmp_path / "run.npz"}
    run = fx.solve(GAME, fx.FeDualEx(0.3), tol=1e-6, **options)
    said = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert said[0][:2] == ("fedualex.runtime.driver", "INFO")
    assert said[0][2].startswith("begins: FeDualEx, 12 rounds, 3 clients; its program is compiled")
    assert said[-1] == ("fedualex.runtime.driver", "INFO", f"ended: {run}")
    assert [level for _, level, _ in said[1:-1]] == ["DEBUG"] * 7
    caplog.clear()
    fx.solve(GAME, fx.FeDualEx(0.3), tol=1e-6, **options)
    assert f"resumed from {tmp_path / 'run.npz'} after round 12" in caplog.text


def test_the_library_is_silent_by_default():
    """In a process of its own: a party of a deployment, which other tests start, logs what it does."""
    program = "import logging, fedualex; own = logging.getLogger('fedualex'); print(own.level, own.handlers)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split()[:2] == [str(logging.NOTSET), "[<NullHandler"]


# --- the docs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_code_of_the_docs_runs_and_its_table_names_every_column(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    section = text.split("\n## What a run returns\n")[1].split("\n## ")[0]
    names = {}
    for block in re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL):
        exec(compile(block, "simulator.md", "exec"), names)
    columns_of_docs = re.findall(r"^\| (`.*?) \|", text.split("\n## History\n")[1].split("\n## ")[0], re.MULTILINE)
    named = re.findall(r"`(\w+\*?)`", " ".join(columns_of_docs))
    for column in run.history:
        assert any(column == name or (name.endswith("*") and column.startswith(name[:-1])) for name in named), column
    assert {"server_seconds", "epsilon"} <= set(named)
