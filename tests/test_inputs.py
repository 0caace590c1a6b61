"""What is accepted and what is refused, in one sentence that names the argument: masks, truth values, whole numbers,
labels, classes, tables, missing extras, and how the command line says so."""

import json
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from support.interrupting import start_interruptible

import fedualex as fx
from fedualex import data, validation
from fedualex.cli import main
from fedualex.estimators import AgnosticClassifier, FederatedLasso, FederatedLogisticRegression
from fedualex.problems import agnostic, auc, client_metrics, constrained, sparse_glm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.arange(60) % 2
CLIENTS = np.arange(60) % 3
FRACTIONS = np.linspace(0.05, 5.95, 60)
GAME = fx.problems.bilinear(RNG.normal(size=(3, 3)), np.zeros(3), x=fx.Box(1.0), y=fx.Box(1.0))
METHOD = fx.FeDualEx(eta_c=0.1)


def masked(array):
    """With one entry masked."""
    return np.ma.masked_array(array, np.arange(np.size(array)).reshape(np.shape(array)) == 1)


def unmasked(array):
    """A masked array in which nothing is."""
    return np.ma.masked_array(array)


def refusal(call):
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert "\n" not in str(refused.value)
    return str(refused.value)


# --- masks ---------------------------------------------------------------------------------------------------------

MASKED = {
    "Linear: c": lambda of: fx.Linear(of(np.ones(3))),
    "Box: upper": lambda of: fx.Box(lower=0.0, upper=of(np.ones(3))),
    "GroupL2: groups": lambda of: fx.GroupL2(0.1, of(np.arange(3))),
    "A": lambda of: fx.problems.bilinear(of(np.ones((3, 3))), np.zeros(3), x=fx.Box(1.0), y=fx.Box(1.0)),
    "X": lambda of: agnostic(of(X), Y, CLIENTS, l1=0.1),
    "y": lambda of: agnostic(X, of(Y), CLIENTS, l1=0.1),
    "clients": lambda of: agnostic(X, Y, of(CLIENTS), l1=0.1),
    "prior": lambda of: agnostic(X, Y, CLIENTS, l1=0.1, kl=0.1, prior=of(np.ones(3))),
    "weights": lambda of: sparse_glm("squared", X, Y, CLIENTS, l1=0.1, weights=of(np.ones(3))),
    "local_steps": lambda of: fx.simulate(GAME, METHOD, rounds=1, clients=3, local_steps=of(np.arange(1, 4))),
    "z.x": lambda of: GAME.certificate(fx.Saddle(of(np.zeros(3)), np.zeros(3))),
    "data[0]": lambda of: fx.Problem(
        lambda x, e: jnp.sum((x - e) ** 2), x=fx.Box(1.0), like=fx.Saddle(np.zeros(3)), data=[of(np.ones((2, 3)))]
    ),
    "values": lambda of: data.by_column(of(CLIENTS)),
    "labels": lambda of: data.dirichlet(of(Y), 3, 1.0),
    "the column 'a'": lambda of: data.Encoder.fit({"a": of(np.ones(4)), "b": np.arange(4)}),
    "t: the column 'a'": lambda of: data.Table({"a": of(np.ones(4))}, "t"),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_entries_are_refused_and_a_mask_of_nothing_is_honored(name):
    assert refusal(lambda: MASKED[name](masked)).startswith(f"{name} must not have masked entries")
    MASKED[name](unmasked)


def test_masks_inside_lists_are_seen():
    rows = [unmasked(np.ones(3)), masked(np.ones(3))]
    assert "X must not have masked entries" in refusal(lambda: agnostic(rows, [0, 1], [0, 1], l1=0.1))
    assert "Linear: c must not have masked" in refusal(lambda: fx.Linear([1.0, np.ma.masked]))


def test_estimators_refuse_masks():
    model = FederatedLogisticRegression(l1=0.1, tol=0.1)
    assert "X must not have masked" in refusal(lambda: model.fit(masked(X), Y))
    assert "y must not have masked" in refusal(lambda: model.fit(X, masked(Y)))
    assert "clients must not have masked" in refusal(lambda: model.fit(X, Y, masked(CLIENTS)))
    model.coef_, model.intercept_ = np.zeros((1, 3)), np.zeros(1)
    assert "X must not have masked" in refusal(lambda: model.predict(masked(X)))


@pytest.mark.slow
def test_estimators_honor_a_mask_of_nothing():
    plain, honored = FederatedLasso(0.1).fit(X, Y), FederatedLasso(0.1).fit(unmasked(X), unmasked(Y))
    assert np.array_equal(plain.coef_, honored.coef_)


# --- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("L1: lam", lambda true: fx.L1(true)),
        ("Box: radius", lambda true: fx.Box(true)),
        ("Linear: c", lambda true: fx.Linear([0.5, true])),
        ("GaussianNoise: sigma", lambda true: fx.GaussianNoise(true)),
        ("Minibatch: size", lambda true: fx.Minibatch(true)),
        ("eta_c", lambda true: fx.FeDualEx(eta_c=true)),
        ("tol", lambda true: fx.solve(GAME, METHOD, rounds=3, tol=true)),
        ("rounds", lambda true: fx.solve(GAME, METHOD, rounds=true)),
        ("noise", lambda true: fx.solve(GAME, METHOD, rounds=3, noise=true)),
        ("seed", lambda true: fx.solve(GAME, METHOD, rounds=3, seed=true)),
        ("clients", lambda true: fx.solve(GAME, METHOD, rounds=3, clients=true)),
        ("local_steps", lambda true: fx.solve(GAME, METHOD, rounds=3, local_steps=true)),
        ("max_seconds", lambda true: fx.solve(GAME, METHOD, rounds=3, max_seconds=true)),
        ("l1", lambda true: agnostic(X, Y, CLIENTS, l1=true)),
        ("alpha", lambda true: data.dirichlet(Y, 3, true)),
        ("alpha", lambda true: FederatedLasso(true).fit(X, Y)),
        ("tol", lambda true: FederatedLasso(tol=true).fit(X, Y)),
        ("max_rounds", lambda true: FederatedLasso(max_rounds=true).fit(X, Y)),
    ],
)
def test_true_is_not_a_number(name, call):
    for true in (True, np.True_):
        sentence = refusal(lambda true=true: call(true))
        assert sentence.startswith((name, f"FeDualEx: {name}"))
        assert "True" in sentence


def test_truth_values_are_data():
    flags = X > 0
    a, b = (agnostic(rows, label, CLIENTS, l1=0.1) for rows, label in ((flags, Y == 1), (flags * 1.0, Y)))
    for left, right in zip(a.data.examples.values(), b.data.examples.values(), strict=True):
        np.testing.assert_array_equal(left, right)
    sparse_glm("squared", flags, Y == 1, l1=0.1)
    fx.problems.matrix_game(np.eye(3, dtype=bool))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint32, np.uint64, np.array])
def test_whole_numbers_of_numpy_work_wherever_one_is_accepted(kind):
    sizes = {"rounds": 120, "clients": 100, "cohort": 60, "local_steps": 2, "seed": 7, "record_every": 50, "chunk": 40}
    options = {"noise": fx.GaussianNoise(0.1)}
    plain = fx.simulate(GAME, METHOD, **sizes, **options)
    run = fx.simulate(GAME, METHOD, **{name: kind(size) for name, size in sizes.items()}, **options)
    assert run.gap == plain.gap
    assert list(run.history["round"]) == list(plain.history["round"])
    np.testing.assert_array_equal(data.iid(kind(100), kind(7), seed=kind(3)), data.iid(100, 7, seed=3))
    np.testing.assert_array_equal(data.dirichlet(Y, kind(5), 1.0, least=kind(2)), data.dirichlet(Y, 5, 1.0, least=2))
    np.testing.assert_array_equal(fx.problems.paper_l1(kind(3)).b, fx.problems.paper_l1(3).b)
    assert type(validation.whole_number("n", kind(3))) is int


@pytest.mark.parametrize("value", [2.0, np.float64(2), "2", None, [2], np.array([2]), np.array(2.0), 0, np.int8(-1)])
def test_what_is_no_whole_number(value):
    assert refusal(lambda: validation.whole_number("n", value)).startswith("n must be a whole number >= 1, got ")


# --- labels and classes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[1, "1"], ["1", 1], [1.5, "1.5"], [b"a", "a"], (1, "1")], ids=repr)
def test_ids_of_two_kinds_do_not_merge(ids):
    clients = list(ids) * 30
    for call in (
        lambda: agnostic(X, Y, clients, l1=0.1),
        lambda: sparse_glm("squared", X, Y, clients, l1=0.1),
        lambda: data.by_column(np.array(clients, object)),
        lambda: FederatedLasso(0.1).fit(X, Y, clients),
    ):
        assert "must be labels of one kind, all of them text or none" in refusal(call)
    assert "y must be labels of one kind" in refusal(lambda: FederatedLogisticRegression(0.1).fit(X, clients))


@pytest.mark.parametrize(
    "call",
    [
        lambda y: agnostic(X, y, CLIENTS, l1=0.1),
        lambda y: agnostic(X, y, CLIENTS, l1=0.1, loss="multiclass"),
        lambda y: agnostic(X, y, CLIENTS, l1=0.1, loss="logistic"),
        lambda y: sparse_glm("logistic", X, y, l1=0.1),
        lambda y: auc(X, y, CLIENTS, l1=0.1),
        lambda y: constrained(X, y.astype(float), CLIENTS, limits=1.0, groups="classes", loss="squared", l1=0.1),
        lambda y: client_metrics({"weights": np.zeros((3, 60)), "bias": np.zeros(60)}, X, y, CLIENTS),
        lambda y: AgnosticClassifier().fit(X, y, CLIENTS),
        lambda y: data.dirichlet(y, 3, 1.0),
    ],
)
@pytest.mark.parametrize("y", [FRACTIONS, FRACTIONS.astype(object), np.where(Y, 0.5, -0.5)], ids=["60", "object", "2"])
def test_numbers_with_a_fraction_are_no_classes(call, y):
    sentence = refusal(lambda: call(y))
    assert "must hold classes, which are text, truth values or whole numbers" in sentence
    assert "target of regression" in sentence


@pytest.mark.parametrize(
    "y", [Y, Y * 1.0, Y.astype(np.uint8), Y == 1, np.where(Y, "yes", "no"), np.array(["a", "b"] * 30, object)]
)
def test_what_counts_as_classes(y):
    names, number = validation.classes("y", y)
    assert len(names) == 2
    assert len(np.unique(number)) == 2
    agnostic(X, y, CLIENTS, l1=0.1)


def test_a_table_follows_the_same_rule_and_says_so_in_one_line(tmp_path):
    rows = "\n".join(f"{a},{b},{t}" for a, b, t in zip(X[:, 0], X[:, 1], FRACTIONS, strict=True))
    (tmp_path / "t.csv").write_text(f"a,b,t\n{rows}\n")
    line = refused(tmp_path, 'name = "agnostic"\ncsv = "t.csv"\ntarget = "t"\nl1 = 0.1\n' + PARTITION)
    assert "y must hold classes" in line


# --- what does not fit together ------------------------------------------------------------------------------------


def test_a_prior_without_kl_is_refused():
    assert refusal(lambda: agnostic(X, Y, CLIENTS, l1=0.1, prior=[1, 2, 3])).startswith("prior needs kl > 0")
    assert "prior needs kl" in refusal(lambda: AgnosticClassifier(prior=[1, 2, 3]).fit(X, Y, CLIENTS))


PARTITION = 'partition = { kind = "iid", clients = 2 }'


def refused(folder, problem, *more):
    file = folder / "run.toml"
    file.write_text(f'[problem]\n{problem}\n[method]\nname = "FeDualEx"\neta_c = 0.1\n[run]\nrounds = 2\n')
    result = CliRunner().invoke(main, ["solve", str(file), "--out", str(folder / "run"), *more])
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == (0 if more else 1)
    return result.output


def test_a_target_that_is_also_the_partition_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,t\n" + "\n".join(f"{i},{i % 2}" for i in range(10)))
    partition = 'partition = { kind = "by_column", column = "t" }'
    line = refused(tmp_path, f'name = "agnostic"\ncsv = "t.csv"\ntarget = "t"\nl1 = 0.1\n{partition}')
    assert "partition.column must not be the target" in line


@pytest.mark.parametrize(
    ("text", "mark"),
    [("a;b;t\n1;2;0\n", ";"), ("a\tb\n1\t2\n", "\t"), ("a|b\n1|2\n", "|"), ("a b t\n1 2.5 0\n", " ")],
)
def test_the_delimiter_of_a_csv_file_is_found(tmp_path, text, mark):
    file = tmp_path / "t.csv"
    file.write_text(text)
    assert len(data.read_csv(file)) > 1
    assert data.read_csv(file).checksum == data.read_csv(file, delimiter=mark).checksum


def test_a_decimal_comma_is_read_where_it_can_be_none_of_the_delimiters(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a;b;c\n1,5;2.5;1,5\n-2;3;1.5\n")
    table = data.read_csv(file)
    assert table["a"].tolist() == [1.5, -2]
    assert table["b"].tolist() == [2.5, 3]
    assert table["c"].tolist() == ["1,5", "1.5"]  # one column, two signs: no numbers
    assert data.read_csv(file, decimal=".")["a"].tolist() == ["1,5", "-2"]
    assert "decimal must be" in refusal(lambda: data.read_csv(file, decimal="'"))
    assert "delimiter must be one character" in refusal(lambda: data.read_csv(file, delimiter=";;"))


def test_a_true_column_is_read(tmp_path):
    file = tmp_path / "t.csv"
    for text in ("a\n1\n2\n", "full name\nAda Lovelace\n", "blood pressure\n120\n"):
        file.write_text(text)
        assert len(data.read_csv(file)) == 1
    file.write_text("a,b\n1,2\n")
    assert "more if ',' is" in refusal(lambda: data.read_csv(file, delimiter=";"))


# --- errors name what the user gave --------------------------------------------------------------------------------


def test_estimators_name_the_argument():
    text = np.where(Y, "yes", "no")
    for y in (text, text.astype(object), list(text)):
        assert refusal(lambda y=y: FederatedLasso().fit(X, y)).startswith("y must be real numbers")
    words = X.astype(object)
    words[0, 0] = "tall"
    assert refusal(lambda: FederatedLasso().fit(words, Y)).startswith("X must be real numbers")
    assert refusal(lambda: FederatedLogisticRegression().fit(words, Y)).startswith("X must be real numbers")
    assert refusal(lambda: FederatedLasso(tol=None).fit(X, Y)).startswith("tol must be a number > 0, got None")


def test_a_checkpoint_where_nothing_can_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "c.npz", tmp_path / "none" / "c.npz", tmp_path):
        sentence = refusal(lambda path=path: fx.simulate(GAME, METHOD, rounds=1, checkpoint=path))
        assert sentence.startswith("checkpoint must be a file in an existing folder that can be written to")


@pytest.mark.parametrize("method", [METHOD, fx.FeDualEx()], ids=["steps given", "steps from theory"])
def test_a_nan_gradient_at_the_start_names_the_client(method):
    def f(x, example):
        return jnp.sum(jnp.sqrt(x["w"] - example))

    clients = [-np.ones((3, 2)), np.ones((1, 2))]
    problem = fx.Problem(f, x={"w": fx.Box(0.5)}, like=fx.Saddle({"w": np.zeros(2)}), data=clients)
    with pytest.raises(FloatingPointError) as refused:
        fx.solve(problem, method, rounds=3, convexity="trust")
    assert str(refused.value) == (
        "the gradient of client 1's f (of 2 clients, from 0) by x['w'] is not finite (nan) at the start"
    )


def test_a_nan_gradient_of_a_shared_f_is_called_its():
    problem = fx.Problem(lambda x: jnp.sum(jnp.sqrt(x**2)), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)))
    with pytest.raises(FloatingPointError, match=r"^the gradient of f by x is not finite \(nan\) at the start$"):
        fx.solve(problem, METHOD, rounds=3, convexity="trust")


# --- missing extras ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "extra", "call"),
    [
        ("sklearn.datasets", "estimators", lambda: data.bundled("wine")),
        ("pyarrow.parquet", "parquet", lambda: data.read_parquet("t.parquet")),
        ("dp_accounting", "privacy", lambda: fx.deploy.Privacy(clip=1.0, noise=1.0).epsilon(3)),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_command(monkeypatch, module, extra, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as missing:
        call()
    assert str(missing.value).endswith(f": pip install 'fedualex[{extra}]'")


def test_a_missing_extra_is_one_line_of_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    line = refused(tmp_path, f'name = "agnostic"\nbundled = "wine"\nl1 = 0.1\n{PARTITION}')
    assert line.endswith("pip install 'fedualex[estimators]'\n")


@pytest.mark.parametrize(("engine", "package"), [("nvflare", "nvflare"), ("flower", "flwr")])
def test_a_missing_engine_is_one_line_of_the_command_line(monkeypatch, tmp_path, engine, package):
    for name in [name for name in sys.modules if name.startswith(f"fedualex.deploy.{engine}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(main, ["deploy", "init", str(tmp_path / "d"), "--engine", engine])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert f"pip install 'fedualex[{engine}]'" in result.stderr


# --- how the command line says so ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "none.toml"],
        ["theory", "none.toml"],
        ["verify", "none"],
        ["report", "none"],
        ["compare", "none"],
        ["reproduce", "l3"],
        ["deploy", "status", "none"],
        ["deploy", "init", "d", "--engine", "none"],
        ["solve"],
        ["solve", "a.toml", "--fast"],
        ["demo", "--seed", "one"],
        ["methods", "--jsn"],
        ["sovle"],
    ],
    ids=" ".join,
)
def test_errors_are_json_if_asked_for(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = CliRunner().invoke(main, arguments)
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == plain.exit_code == 2
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert list(document) == ["error"]
    assert "\n" not in document["error"]
    assert document["error"] in " ".join(plain.stderr.split())


def test_an_out_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    for command in (["demo", "--out"], ["reproduce", "--quick", "--out"], ["deploy", "init"]):
        result = CliRunner().invoke(main, [*command, str(tmp_path / "file" / "run")])
        assert result.exit_code == 2
        name = "folder" if "init" in command else "--out"
        assert result.stderr.startswith(f"Error: {name} must be a folder that can be written to")
        assert len(result.stderr.splitlines()) == 1


START = "from fedualex.cli import main; print('ready', flush=True); main()"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("delay", [0.0, 0.3, 3.0])  # in imports, in their extensions, and in compilation
@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_at_the_start_is_one_line_and_130(delay, as_json, tmp_path):
    command = [sys.executable, "-c", START, "demo", "--out", str(tmp_path / "demo"), *["--json"] * as_json]
    with start_interruptible(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.02 + delay)
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=600)
    assert process.returncode == 130
    if as_json:
        assert json.loads(said) == {"error": "interrupted"}
        assert complaint.strip() == ""
    else:
        assert complaint.strip() == "interrupted"
