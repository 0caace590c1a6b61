"""A wrong file is refused in one line and leaves nothing."""

import json
import tomllib

import pytest
from support.command_line import (
    GAME,
    OWN_LINE,
    PSI,
    SPECTRAL,
    cli,
    here,  # noqa: F401
    refused,
    write_toml,
)

from fedualex.runs.settings import build_regularizer

REFUSALS = [
    # (table, its content, what the line must say)
    ("problem", 'name = "bilinar"', "did you mean 'bilinear'?"),
    ("problem", f'nam = "bilinear"\nx = {PSI}', 'needs either name = "..." or entry'),
    ("problem", 'name = "bilinear"\nentry = "a:b"', 'needs either name = "..." or entry'),
    ("problem", 'name = ["bilinear"]', "there is no problem ['bilinear']"),
    ("problem", GAME.replace("file", "fiel"), "[problem] has no key 'fiel'; did you mean 'file'?"),
    ("problem", f'name = "bilinear"\nx = {PSI}\ny = {PSI}', 'needs file = "....npz" with the arrays A, b'),
    ("problem", GAME.replace("game.npz", "nowhere.npz"), "nowhere.npz cannot be read"),
    ("problem", GAME.replace("game.npz", "own.toml"), "own.toml cannot be read"),
    ("problem", GAME.replace("game.npz", "data.npz"), "data.npz must hold the arrays A, b; 'A' is missing"),
    ("problem", 'name = "bilinear"\nfile = "game.npz"', "'x'"),
    ("problem", 'name = "paper_l1"\nsed = 1', "did you mean 'seed'?"),
    ("problem", 'name = "paper_l1"\nseed = "a"', "[problem]"),
    ("problem", GAME.replace("L1 =", "L_1 ="), "did you mean 'L1'?"),
    ("problem", GAME.replace("{ L1 = 0.1, Box", "{ Simplex = 1.0, Box"), "has no closed form"),
    (
        "problem",
        GAME.replace("Box = 0.5", "Box = { radios = 0.5 }"),
        "x.Box has no key 'radios'; did you mean 'radius'?",
    ),
    ("problem", GAME.replace("Box = 0.5", "Box = { upper = inf }"), "problem.x.Box.upper must be finite"),
    ("problem", GAME.replace("L1 = 0.1", "L1 = nan"), "problem.x.L1 must be finite"),
    ("problem", GAME.replace("L1 = 0.1", 'L1 = "a"'), "[problem] x.L1"),
    ("problem", GAME.replace("L1 = 0.1", "L1 = -0.1"), "[problem] x.L1"),
    ("problem", GAME.replace("L1 = 0.1", "L1 = 2026-01-01"), "problem.x.L1 must be a number"),
    ("problem", GAME.replace(f"x = {PSI}", "x = 0.1"), "[problem] x must be such as"),
    ("problem", GAME.replace(f"x = {PSI}", "x = {}"), "[problem] x must be such as"),
    ("problem", GAME.replace(f"x = {PSI}", 'x = "Zeroo"'), "did you mean 'Zero'?"),
    ("problem", GAME.replace(f"x = {PSI}", "x = { Spectral = 0.1 }"), "[problem] x.Spectral must be such as"),
    ("problem", GAME.replace(f"x = {PSI}", f"x = {SPECTRAL}"), "Spectral needs a matrix"),
    ("problem", GAME.replace(f"x = {PSI}", "x = { EntropicSimplex = [], Entropy = 1.0 }"), "{regularizer = {...}}"),
    ("problem", 'entry = "cli_own"', 'entry must be "module:function"'),
    ("problem", "entry = 5", 'entry must be "module:function"'),
    ("problem", 'entry = "cli_nowhere:build"', "No module named 'cli_nowhere'"),
    ("problem", 'entry = "cli_own:biuld"', "has no attribute 'biuld'"),
    ("problem", 'entry = "cli_own:build"\nshft = 1', "unexpected keyword argument 'shft'"),
    ("problem", 'entry = "cli_own:number"', "must return a problem, got 5"),
    ("problem", 'entry = "cli_own:missing"', f"KeyError: 'shift' (cli_own.py, line {OWN_LINE})"),
    ("problem", 'entry = "cli_syntax:build"', "SyntaxError: invalid syntax (cli_syntax.py, line 1)"),
    ("method", 'name = "FeDualX"', "there is no method 'FeDualX'; did you mean 'FeDualEx'?"),
    ("method", 'nmae = "FeDualEx"', '[method] needs name = "..."'),
    ("method", "name = { a = 1 }", "there is no method {'a': 1}"),
    ("method", 'name = "FeDualEx"\neta_k = 0.1', "[method] has no key 'eta_k'; did you mean 'eta_"),
    ("method", 'name = "FeDualEx"\neta_c = "big"', "[method]: eta_c must be a number > 0, got 'big'"),
    ("method", 'name = "FeDualEx"\neta_c = -1', "[method]: eta_c must be a number > 0, got -1.0"),
    ("method", 'name = "FedMiD"\nserver_prox = "some"', "server_prox"),
    ("run", "rouns = 3", "[run] has no key 'rouns'; did you mean 'rounds'?"),
    ("run", "rounds = 3\ntolerance = 1", "[run] has no key 'tolerance'"),
    ("run", 'rounds = "many"', "rounds must be a whole number >= 1, got 'many'"),
    ("run", "rounds = 3.0", "rounds must be a whole number >= 1, got 3.0"),
    ("run", "rounds = 0", "rounds must be a whole number >= 1, got 0"),
    ("run", "rounds = 99999999999999999999", "run.rounds must be a number of 64 bits"),
    ("run", "rounds = 3\nsteps = 3", "rounds= "),
    ("run", "rounds = 3\nnoise = -1", "[run] noise: GaussianNoise: sigma must be a number >= 0, got -1.0"),
    ("run", "rounds = 3\nnoise = true", "[run] noise must not be true"),
    ("run", "rounds = 3\nnoise = 0.1\nminibatch = 2", "noise or minibatch, not both"),
    ("run", "rounds = 3\nminibatch = 2", "[run] minibatch: this problem has no examples"),
    ("run", "rounds = 3\nminibatch = 0", "[run] minibatch: Minibatch: size must be a whole number >= 1"),
    ("run", "rounds = 3\nclients = 2\ncohort = 3", "cohort must be at most the number of clients, 2"),
    ("run", "rounds = 3\nclients = 2\nlocal_steps = [1, 2, 3]", "one for each of 2 clients"),
    ("run", "rounds = 3\nweights = [1.0, 2.0]", "weights"),
    ("run", "rounds = 3\nstart = 0.1", "[run] start must be {uniform = radius}, got 0.1"),
    ("run", "rounds = 3\nstart = { uniform = -1 }", "start.uniform must be a number > 0, got -1.0"),
    ("run", "rounds = 3\nseed = -1\nstart = { uniform = 1 }", "seed must be a whole number >= 0, got -1"),
    ("run", "rounds = 3\ntol = nan", "run.tol must be finite"),
    ("run", "rounds = 3\ntol = 0", "tol must be a number > 0"),
    ("run", 'rounds = 3\ndtype = "float16"', "dtype must be 'float32' or 'float64'"),
    ("run", 'rounds = 3\noutput = "best"', "output must be one of 'last'"),
    ("run", "rounds = 3\nrecord_every = 0", "record_every must be a whole number >= 1"),
    ("run", "rounds = 3\nmax_seconds = -1", "max_seconds must be a number > 0"),
]


@pytest.mark.parametrize(("table", "content", "words"), REFUSALS, ids=lambda value: value.replace("\n", ", ")[:60])
def test_a_wrong_file_is_refused_in_one_line_and_leaves_nothing(here, tmp_path, table, content, words):
    file = write_toml(here / "wrong.toml", **{table: content})
    assert words in refused("solve", file, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert words in refused("theory", file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[problem", "cannot be read as TOML"),
        ("[problem]\nname = paper_l1", "line 2"),
        ("", "needs a table [problem]"),
        ("problem = 1", "needs a table [problem]"),
        ("[problem]\n[run]", "needs a table [method]"),
        ("[problem]\n[metod]\n[run]", "the file has no key 'metod'; did you mean 'method'?"),
        ("\ufeff[problem]", "cannot be read as TOML"),
    ],
)
def test_a_file_that_is_not_a_configuration_is_refused(tmp_path, text, words):
    (tmp_path / "wrong.toml").write_text(text)
    assert words in refused("solve", tmp_path / "wrong.toml")
    assert words in refused("theory", tmp_path / "wrong.toml")


def test_missing_files_and_folders_are_refused(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for command in ("solve", "theory"):
        assert "there is no file" in refused(command, tmp_path / "nowhere.toml")
        assert "cannot be read as TOML" in refused(command, tmp_path)
        assert "cannot be read as TOML" in refused(command, tmp_path / "binary.toml")
    for command in ("verify", "report", "compare"):
        assert "there is no folder" in refused(command, tmp_path / "nowhere")
        assert "has no manifest.json" in refused(command, tmp_path)


def test_regularizers_as_a_file_names_them():
    built = {
        '"Zero"': "Zero()",
        "{L1 = 0.1, Box = 0.5, SquaredL2 = 1.0}": "L1(0.1) + Box(0.5) + SquaredL2(1.0)",
        "{Box = {lower = 0.0, upper = 2.0}}": "Box(lower=0.0, upper=2.0)",
        "{ElasticNet = [0.1, 2.0]}": "L1(0.1) + SquaredL2(2.0)",
        "{Spectral = {L1 = 0.1, Box = 0.5}}": "Spectral(L1(0.1) + Box(0.5))",
        '"EntropicSimplex"': "EntropicSimplex()",
        "{EntropicSimplex = {regularizer = {CappedSimplex = 0.5}}}": "EntropicSimplex(CappedSimplex(0.5))",
        "{PNorm = {p = 1.5, regularizer = {L1 = 0.1}}}": "PNorm(1.5, L1(0.1))",
    }
    for text, expected in built.items():
        assert repr(build_regularizer(tomllib.loads(f"x = {text}")["x"], "x")) == expected


def test_codes_that_happen_to_be_numbers_are_predicted_and_errors_name_column_row_and_value(tmp_path):
    codes = ["01", "2", "3", "A"]
    lines = [f"{40 + i},{codes[i % 4]},{'ab'[i % 3 == 0]},{'nsw'[i % 3]}" for i in range(60)]
    (tmp_path / "all.csv").write_text("\n".join(["age,code,y,site", *lines]) + "\n")
    fit = ("fit", tmp_path / "all.csv", "--target", "y", "--clients", "site", "--goal", "logistic", "--l1", "0.004")
    assert cli(*fit, "--out", tmp_path / "fit").exit_code == 0
    few = [line for line in lines if ",A," not in line]
    (tmp_path / "few.csv").write_text("\n".join(["age,code,y,site", *few]) + "\n")
    found = {}
    for name in ("all", "few"):
        told = json.loads(cli("predict", tmp_path / "fit", tmp_path / f"{name}.csv", "--json").stdout)
        found[name] = told["prediction"], told["score"]
    kept = [i for i, line in enumerate(lines) if line in few]
    assert found["few"][0] == [found["all"][0][i] for i in kept]
    assert found["few"][1] == pytest.approx([found["all"][1][i] for i in kept], rel=1e-12)
    (tmp_path / "few.csv").write_text("\n".join(["age,code", "41,2", "old,3"]) + "\n")
    words = refused("predict", tmp_path / "fit", tmp_path / "few.csv")
    assert "the column 'age' must hold numbers, as when it was fitted, got text, 'old' in row 2 of 2" in words
    (tmp_path / "all.csv").write_text("\n".join(["age,code,y,site", *lines[:5], "4,A,a,", *lines[5:]]) + "\n")
    words = refused(*fit, "--out", tmp_path / "other")
    assert "the column of clients 'site' must not contain nan, None or empty text, got '' in row 6 of 61" in words
    (tmp_path / "all.csv").write_text("\n".join(["age,code,age,site", *lines]) + "\n")
    assert "different names for its columns, got more than one 'age'" in refused(*fit, "--out", tmp_path / "other")
