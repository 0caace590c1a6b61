"""Settings of runs: what a file can name, its defaults, and refusals in one line that leave nothing."""

import inspect
import json
import tomllib

import numpy as np
import pytest
from support.command_line import GAME, OWN_LINE, PSI, SPECTRAL, here, refused, strict, write_toml  # noqa: F401

import fedualex as fx
from fedualex.runs.settings import (
    METHODS,
    PROBLEMS,
    ConfigurationError,
    arrays_of,
    build_method,
    build_problem,
    build_regularizer,
    check_keys,
    configure,
    find_named,
    folder_names,
    read_toml,
    recipe_of,
    run_oracle,
    start_point,
    unique,
    with_defaults,
)
from fedualex.runtime import fingerprint

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


# --- what a file can name ---------------------------------------------------------------------------------------------


def test_every_problem_of_the_catalogue_says_what_it_is_built_from():
    built = {
        name
        for name in fx.problems.__all__
        if inspect.isfunction(getattr(fx.problems, name))
        and inspect.signature(getattr(fx.problems, name)).return_annotation in PROBLEM_TYPES
    }
    assert built - {"assemble"} == set(PROBLEMS)  # which makes the problem of any recipe
    for name in PROBLEMS:
        assert set(arrays_of(name)) <= set(inspect.signature(PROBLEMS[name]).parameters)


PROBLEM_TYPES = ("Problem", fx.problems.Problem, "Bilinear", fx.problems.Bilinear)


def test_every_method_can_be_named_without_step_sizes_and_kept_as_json():
    for name in METHODS:
        build_method({"name": name})
        assert strict(json.dumps(with_defaults({"name": name}, METHODS)))["name"] == name


def test_a_loss_is_told_apart_by_what_it_closes_over(here):
    first, second = (build_problem({"entry": "cli_own:closed_over", "shift": s}, here) for s in (1.0, 2.0))
    assert fingerprint(first) != fingerprint(second)


def test_labels_are_told_apart_and_stay_inside_the_folder():
    assert unique(["A", "A", "A 2", "B"]) == ["A", "A 3", "A 2", "B"]
    names = folder_names(["a/b", "a b", "..", "figures", "A-B", "über 1.5"])
    assert list(names.values()) == ["a-b", "a-b-2", "method", "figures-2", "A-B-3", "über-1.5"]


# --- from settings to a run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["optimal", "noisy", "own"])
def test_resolved_settings_describe_the_same_run(here, name):
    first = configure(read_toml(here / f"{name}.toml"), here)
    tables = {key: first.resolved[key] for key in ("problem", "method", "run")}
    again = configure(json.loads(json.dumps(tables)), here)
    assert again.resolved == first.resolved
    assert fingerprint(again.problem, again.method) == fingerprint(first.problem, first.method)
    for key in ("rounds", "tol", "seed", "clients", "record_every"):
        assert getattr(again.options, key) == getattr(first.options, key)


def test_weights_of_a_run_are_those_of_its_problem(here):
    configuration = configure(read_toml(here / "weighted.toml"), here)
    np.testing.assert_allclose(configuration.problem.weights, [0.25, 0.25, 0.5])
    assert configuration.options.weights is None


def test_a_random_start_is_a_function_of_the_seed(here):
    problem = build_problem(tomllib.loads(GAME), here)
    first, again, other = (start_point({"uniform": 0.1}, problem, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)
    assert (np.abs(first.x) <= 0.1).all()
    assert np.shape(first.y) == np.shape(problem.like.y)
    assert start_point(None, problem, 3) is None


def test_noise_is_named_by_its_size_and_left_out_where_operators_are_exact():
    assert run_oracle({"noise": None, "minibatch": None}) is None
    assert run_oracle({"noise": 0.5, "minibatch": None}).sigma == 0.5
    assert run_oracle({"noise": None, "minibatch": 3}).size == 3


def test_a_wrong_name_is_refused_with_the_one_that_was_meant():
    with pytest.raises(ConfigurationError, match=r"^\[here\] has no key 'lenght'; did you mean 'length'\?$"):
        check_keys("[here]", ["lenght"], ["length", "width"])
    assert find_named("kind", "a", {"a": 1}) == 1
    with pytest.raises(ConfigurationError, match=r"^there is no kind 'lenght'; did you mean 'length'\?$"):
        find_named("kind", "lenght", {"length": 1})
    with pytest.raises(ConfigurationError, match=r'^\[kind\] needs name = "...", one of a, b$'):
        find_named("kind", None, {"a": 1, "b": 2})


def test_a_problem_that_is_not_made_of_rows_has_no_recipe():
    assert recipe_of({"name": "agnostic", "l2": 0.5, "file": "data.npz"}).l2 == 0.5
    with pytest.raises(ConfigurationError, match=r"^bilinear is not made of rows, so that it has no model$"):
        recipe_of({"name": "bilinear"})
