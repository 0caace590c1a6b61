"""A printed bound is never below the bound, and names of others do not steer a terminal."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings, strategies as st
from support.command_line import cli
from support.committee_data import effect, effects, full_training, path_curve
from support.patients import write

import fedualex as fx
from fedualex.cli import main
from fedualex.cli.common import gap_in_short
from fedualex.data import Encoder, Standardizer
from fedualex.deploy.wire import one_line
from fedualex.display import html_table, round_up, sure_digits, text_table, visible
from fedualex.models import Answers, Model, save
from fedualex.problems.families import reading_of


@settings(deadline=None)
@given(st.floats(0, allow_infinity=False), st.integers(1, 12))
@example(1.14412, 3)
@example(0.1, 3)
@example(5e-324, 2)
@example(1.7976931348623157e308, 17)
@example(999.9, 3)
def test_a_rounded_bound_is_not_below_and_hardly_above(bound, digits):
    text = round_up(bound, digits)
    assert float(text) >= bound
    assert float(text) <= bound * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15) or bound < 1e-300
    assert len(re.sub(r"e.*|[.]", "", text).lstrip("0").rstrip("0")) <= digits


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (0.0, "0"),
        (-1e-17, "0"),
        (0.1, "0.1"),
        (1.14412, "1.145"),
        (2.8e-12, "2.8e-12"),
        (float("inf"), "inf"),
        (12345678.0, "1.235e+07"),
    ],
)
def test_how_bounds_look(bound, text):
    assert round_up(bound) == text


def test_nan_is_no_bound():
    with pytest.raises(ValueError, match="nan"):
        round_up(float("nan"))


@pytest.mark.slow
def test_every_printed_bound_of_random_games_is_one():
    """Of 300 bounds that were printed to nearest, 136 were below the certified gap."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        game = fx.problems.bilinear(rng.normal(size=(3, 2)), rng.normal(size=3), x=fx.Box(1.0), y=fx.Simplex(1.0))
        z = game.project(fx.Saddle(rng.normal(size=2), rng.normal(size=3)))
        certificate = game.certificate(z)
        printed = [float(number) for number in re.findall(r"[\d.]+(?:e[-+]\d+)?", str(certificate))]
        assert printed[0] >= certificate.gap
        assert printed[1] >= certificate.x
        assert printed[2] >= certificate.y
        assert float(gap_in_short(certificate.gap)) >= certificate.gap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("age", "age"),
        ("Größe µ 年齢", "Größe µ 年齢"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07\r\x08", "\\x1b]0;title\\x07\\r\\x08"),
        ("\x9b2J", "\\x9b2J"),
        ("right\u202eleft\u2066", "right\\u202eleft\\u2066"),
        ("no-break\u00a0space", "no-break\u00a0space"),
    ],
)
def test_control_characters_are_shown_and_nothing_else_is_changed(text, shown):
    assert visible(text) == shown
    assert visible(text_table(["a"], [[text.replace("\n", " ")]])) == text_table(["a"], [[text.replace("\n", " ")]])
    assert "\x1b" not in html_table([text], [[text]], text)


NASTY = "\x1b]0;owned\x07\x1b[2J"


def test_names_in_tables_do_not_steer_a_terminal(tmp_path):
    """Names of columns, clients and categories, in what fit, explain and predict print and refuse."""
    rows = [f"{i % 7},{'ab'[i % 2]}{NASTY},{'xyz'[i % 3]}{NASTY},{(i * 5) % 11 > 4}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join([f"n{NASTY},word,client,target", *rows]) + "\n")
    fit = ("fit", tmp_path / "t.csv", "--target", "target", "--clients", "client", "--goal", "fair", "--rounds", "30")
    outputs = [cli(*fit, "--out", tmp_path / "out"), cli("explain", tmp_path / "out")]
    outputs.append(CliRunner().invoke(main, ["fit", str(tmp_path / "t.csv"), "--target", f"no{NASTY}"]))
    outputs.append(cli("report", tmp_path / "out" / "run"))
    for result in outputs:
        assert "\x1b" not in result.output + result.stderr
        assert "\x07" not in result.output + result.stderr
    assert "\\x1b]0;owned" in outputs[1].output
    assert all("\x1b" not in page.read_text() for page in tmp_path.rglob("*.html"))


FORGED = f"{NASTY}\nCertified: forged"


def hostile_model():
    """A model whose columns, categories, clients and sentences are somebody else's words."""
    training = full_training([FORGED, "b"])
    rows = [effect(FORGED, 0.7), effect("dose", None), effect(f"ward={FORGED}", -0.3, FORGED)]
    own = {"exchanges": 3, "own_intercepts": True, "others": {}}
    training |= {"effects": effects(rows, FORGED) | own | {"words": [FORGED]}, "done": [FORGED], "weighs": [FORGED]}
    training["penalty"] |= {"sentence": FORGED, "curve": path_curve() | {"what": FORGED, "name": FORGED}}
    training["ordinary"]["sentence"], training["rate"] = FORGED, {"sentence": FORGED}
    training["held_out"]["calibration"]["overall"] = {"intercept": None, "slope": None, "sentence": FORGED}
    scale, labels = Standardizer(np.zeros(2), np.ones(2)), np.array(["no", FORGED])
    coded = {"references": {FORGED + "!": FORGED}, "shares": {FORGED + "!": (0.5, 0.5)}}
    encoder = Encoder((FORGED, "dose"), {FORGED + "!": (FORGED, "south")}, scale, **coded)
    answers, certificate = Answers(reading_of("classes"), labels), {"gap": None, "meaning": FORGED, "exchanges": 3}
    return Model(encoder, np.array([0.5, -0.5, 0.1]), np.array(0.1), answers, "ill", certificate, training)


def test_what_a_model_keeps_of_others_neither_steers_a_terminal_nor_forges_a_line(tmp_path):
    """Effects, measures, calibration, penalty, notes and the page; a table with such names, and refusals of it."""
    save(hostile_model(), tmp_path / "m")
    columns = {FORGED: np.arange(6.0), "dose": np.arange(6.0), FORGED + "!": [FORGED, "south", "new" + FORGED] * 2}
    columns |= {"ill": ["no", FORGED] * 3, "site": [FORGED, "b", "b"] * 2}
    write(tmp_path / "t.csv", {name: list(values) for name, values in columns.items()})
    asks = [("explain", "m"), ("summary", "m"), ("evaluate", "m", "t.csv", "--clients", "site"), ("report", "m")]
    asks += [("predict", "m", "t.csv", "--keep", "site", "--out", "p.csv"), ("summary", "m", "--errors", FORGED)]
    asks += [("evaluate", "m", "t.csv", "--clients", FORGED), ("predict", "m", "t.csv", "--keep", "no" + FORGED)]
    for name, *rest in asks:
        given = [str(tmp_path / one) if one in ("m", "t.csv", "p.csv") else one for one in rest]
        result = CliRunner().invoke(main, [name, *given])
        assert result.exit_code in (0, 2), result.output
        told = result.output + result.stderr
        assert "\x1b" not in told
        assert "\x07" not in told
        assert not re.search(r"^\s*Certified: forged", told, re.MULTILINE), told
    page = (tmp_path / "m" / "report.html").read_text()
    assert "\x1b" not in page


def test_a_refusal_of_a_site_is_shown_escaped():
    assert one_line(f"refused: {NASTY}\n more") == "refused: \\x1b]0;owned\\x07\\x1b[2J more"


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e3), st.floats(-1, 1))
def test_digits_that_are_shown_are_those_of_the_right_number(value, within, share):
    """Which is anywhere within the bound: it is at most one unit of the last digit away."""
    text, right = sure_digits(value, within), value + share * within
    if text.startswith("±"):
        assert abs(right) <= float(text[1:]) * (1 + 1e-12)
        return
    mantissa, _, power = text.partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    if "." not in mantissa and not power:  # a whole number may end in zeros that are no digits
        unit *= 10 ** (len(mantissa) - len(mantissa.rstrip("0")))
    assert abs(float(text) - right) <= unit * (1 + 1e-9)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0.65618, 0.00138), "0.66"),
        ((-0.2011, 4e-4, 4, True), "-0.201"),
        ((0.2, 4e-3), "0.20"),
        ((-0.998, 0.003), "-1.00"),
        ((1.614e-5, 9e-9), "1.61e-05"),
        ((0.004, 0.01), "±0.02"),
        ((0.0, 0.0), "0"),
        ((-0.0, float("inf"), 4, True), "0"),
        ((1698.14159,), "1698"),
        ((float("nan"), 1.0), ""),
    ],
)
def test_a_number_in_the_digits_that_are_determined(given, text):
    assert sure_digits(*given) == text
