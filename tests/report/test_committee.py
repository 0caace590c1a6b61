"""The page of a fitted model for a committee: which sections are there, what they say, and that names are only text."""

import json
import re
from xml.etree import ElementTree

import pytest
from support.committee_data import effect, effects, fitted, full_training, path_curve

from fedualex.models import save
from fedualex.report import write_report
from fedualex.report.charts import linear_axis, log_axis
from fedualex.report.collect import collect
from fedualex.report.committee import committee_section, first_sentence
from fedualex.report.numbers import chance_text, estimate_texts, number_text, ratio_texts
from fedualex.report.page import render

HOSTILE = '<b onclick="x">&"\'\x1b[31m</b>'
SECTIONS = ("effects", "measures", "path", "served", "coding", "certified", "settings")


def sections(page: str) -> list[str]:
    return re.findall(r'<section class="committee (\w+)"', page)


def text_of(page: str) -> str:
    """What is read, of a part that is well-formed XML but for <br>."""
    return " ".join("".join(tree_of(page).itertext()).split())


def tree_of(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{page}</div>".replace("<br>", "<br/>").replace("<details open>", "<details>"))


def test_everything_that_is_kept_has_its_section_in_order():
    page = committee_section(fitted(full_training(["a", "b"])))
    assert sections(page) == list(SECTIONS)
    text = text_of(page)
    for words in ("against north", "dropped", "odds ratio", "Errors are model-based.", "age is missing in 3 rows.",
                  "l1 = 0.05, chosen. It is the largest.", "a weighs 0.9", "The ordinary model minimizes the mean."):  # fmt: skip
        assert words in text
    assert "ward=south: odds ratio 0.74, 0.50 to 1.1" in text
    assert "no intervals: one class only" in text
    titles = [node[0].tag for node in tree_of(page).iter("svg") if node.get("role") == "img"]
    assert titles
    assert set(titles) == {"title"}
    charts = [node for node in tree_of(page).iter("svg") if "plot" in (node.get("class") or "").split()]
    assert all([child.tag for child in node][:2] == ["title", "desc"] for node in charts)
    assert len(charts) == 2 + 2 * 2 + 1


@pytest.mark.parametrize("missing", ["effects", "penalty", "held_out", "ordinary", "done", "configuration", "weighs"])
def test_what_is_not_kept_is_left_out_or_said(missing):
    training = full_training(["a", "b"])
    del training[missing]
    page = committee_section(fitted(training))
    gone = {"penalty": ["path"], "done": ["coding"], "configuration": ["settings"]}.get(missing, [])
    assert sections(page) == [name for name in SECTIONS if name not in gone]
    said = {
        "effects": "There are no intervals. This model was kept without estimates",
        "held_out": "No rows were held out",
    }
    assert said.get(missing, "") in text_of(page)
    assert ("ordinary model" in text_of(page)) == (missing not in ("ordinary", "held_out")) or missing == "held_out"


def test_a_model_that_keeps_nothing_has_its_coefficients_and_says_what_is_not_known():
    page = text_of(committee_section(fitted({})))
    assert "What each column adds to the score" in page
    assert "No rows were held out" in page
    assert first_sentence(fitted({})) == (
        "This model predicts the probability that ill is yes. Nothing was measured on held-out rows. "
        "Its objective is certified to be within 3.2e-07 of the best possible one."
    )


def test_the_first_sentence_says_what_from_what_how_well_and_with_what_penalty():
    assert first_sentence(fitted(full_training(["a", "b"]))) == (
        "This model predicts the probability that ill is yes, from 1,234 rows of 2 clients. On 20 rows that took no "
        "part in the fit, its AUC is 0.90 (95% interval 0.85 to 0.95). Penalty: l1 = 0.05, chosen. Its objective "
        "is certified to be within 3.2e-07 of the best possible one."
    )


def test_refused_effects_give_their_reason_beside_the_coefficients():
    training = full_training(["a", "b"]) | {"effects": {"refused": "A column separates the classes"}}
    page = text_of(committee_section(fitted(training)))
    assert "There are no intervals. A column separates the classes." in page
    assert "per deviation" in page
    assert "Nothing is proved of single coefficients" in page


def test_the_worst_client_is_named_with_both_worst_values():
    page = text_of(committee_section(fitted(full_training(["a", "b"]))))
    assert "Served worst is b, with the loss 0.410 on held-out rows; served best is a, with 0.400." in page
    assert "With the ordinary model the worst is b, with 0.610: the worst is better by 0.20" in page


def test_clients_that_are_masked_are_not_shown_and_that_is_said():
    page = text_of(committee_section(fitted(full_training([]))))
    assert "those of single clients were not revealed" in page
    assert "Served worst" not in page


def test_one_client_is_all_clients():
    page = committee_section(fitted(full_training(["only"])))
    assert "not revealed" not in page
    assert "Served worst is" not in page
    assert "The curves of each client" not in page


def test_of_many_clients_the_worst_are_before_the_fold():
    clients = [f"site {k}" for k in range(60)]
    page = committee_section(fitted(full_training(clients)))
    assert "Served worst is site 59" in page
    assert page.count("The other 40 clients") == 2
    assert "<details><summary>The curves of each client" in page
    assert len(page) < 1_000_000


@pytest.mark.parametrize("kind", ["odds ratio", "difference"])
def test_of_many_effects_the_plot_shows_the_largest_and_says_so(kind):
    features = tuple(f"feature {k}" for k in range(200))
    rows = [effect(name, 0.01 * (k - 100)) for k, name in enumerate(features)]
    model = fitted(full_training(["a"]) | {"effects": effects(rows, kind)}, features)
    tree = tree_of(committee_section(model))
    assert "The plot shows the 40 effects of 200" in " ".join(tree.itertext())
    (section,) = [node for node in tree.iter("section") if node.get("aria-labelledby") == "effects"]
    drawn = [node for node in section.iter("svg") if node.get("class") == "row" and node.get("role")]
    assert len(drawn) == 40
    assert drawn[0][0].text is not None
    assert drawn[0][0].text.startswith("feature 0: ")
    assert len([node for node in section.iter("th") if node.get("scope") == "row"]) == 200


def test_a_model_of_numbers_has_differences():
    training = {"effects": effects([effect("age", 1.25), effect("dose", -0.5)], "difference")}
    text = text_of(committee_section(fitted(training, kind="numbers")))
    assert "The upright line is at 0" in text
    assert "1.25" in text
    assert "0.85 to 1.65" in text


def test_names_are_text_wherever_they_stand(tmp_path):
    training = full_training([HOSTILE, "b"])
    rows = [effect(HOSTILE, 0.7, HOSTILE), effect(f"ward={HOSTILE}", 0.1, HOSTILE)]
    training |= {"effects": effects(rows, HOSTILE) | {"words": [HOSTILE]}, "done": [HOSTILE], "weighs": [HOSTILE]}
    training["penalty"] |= {
        "short": HOSTILE,
        "sentence": HOSTILE,
        "curve": path_curve() | {"what": HOSTILE, "name": HOSTILE},
    }
    training["ordinary"]["sentence"] = HOSTILE
    training["configuration"] = {HOSTILE: HOSTILE}
    model = fitted(training, (HOSTILE, "x" * 300))
    page = committee_section(model)
    tree = tree_of(page)  # well-formed: nothing of a name has become a tag
    assert not list(tree.iter("b"))
    assert not [node for node in tree.iter() if node.get("onclick")]
    assert "\x1b" not in page
    assert page.count("&lt;b onclick=&quot;x&quot;&gt;") > 15
    save(model, tmp_path / "model")
    whole = write_report(tmp_path / "model").read_text(encoding="utf-8")
    assert "<b onclick" not in whole


def test_a_model_alone_and_a_folder_with_a_model_have_a_page_that_loads_nothing(tmp_path):
    save(fitted(full_training(["a", "b"])), tmp_path / "fit" / "model")
    pages = [render(collect(path)) for path in (tmp_path / "fit", tmp_path / "fit" / "model")]
    assert pages[0] == pages[1]
    before = pages[0][: pages[0].index("<script")]
    assert before.index("This model predicts") < before.index('id="effects"') < before.index('id="certified"')
    assert 'id="optimization"' not in before
    assert not re.findall(r"https?:", before)
    assert not re.findall(r"\b(?:src|href)=", before)


def test_what_json_has_of_a_model_is_enough():
    training = json.loads(json.dumps(full_training(["a", "b"])))
    assert committee_section(fitted(training)) == committee_section(fitted(full_training(["a", "b"])))


@pytest.mark.parametrize(
    ("value", "ends", "shown"),
    [
        (0.94567, (0.91234, 0.97456), ("0.946", "0.912 to 0.975")),
        (0.94567, (0.5, 1.0), ("0.95", "0.50 to 1.00")),
        (-0.004, (-3.0, 3.0), ("0.0", "−3.0 to 3.0")),
        (12345.6, (12000.0, 12700.0), ("12300", "12000 to 12700")),
        (0.0, (-0.1, 0.1), ("0.00", "−0.10 to 0.10")),
        (0.5, None, ("0.500", "")),
        (0.5, (None, None), ("0.500", "")),
    ],
)
def test_an_estimate_has_the_digits_of_its_interval(value, ends, shown):
    assert estimate_texts(value, ends) == shown


def test_ratios_and_chances_are_short():
    assert ratio_texts(1.2345, 1.1111, 1.3456) == ("1.23", "1.11 to 1.35")
    assert ratio_texts(2.345, 0.5, 9.876) == ("2.3", "0.50 to 9.9")
    assert ratio_texts(1e-9, 1e-12, None) == ("< 0.001", "< 0.001 to > 1000")
    assert [chance_text(p) for p in (0.0009, 0.0123, 0.234, None)] == ["< 0.001", "0.012", "0.23", "–"]
    assert [number_text(x) for x in (None, float("nan"), 0.0, 1234567.0, 1.0)] == ["–", "–", "0", "1230000", "1.00"]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 4.5), (0.001, 0.0012), (2.0, 2.0), (-800.0, 900.0)])
def test_axes_have_a_few_ticks_within_their_ends(low, high):
    for axis in (linear_axis(low, high), log_axis(low / 100, high / 100)):
        assert 2 <= len(axis.ticks) <= 8
        assert all(axis.has(value) for value, _ in axis.ticks)
        assert len({text for _, text in axis.ticks}) == len(axis.ticks)


@pytest.mark.parametrize("own", [True, False])
def test_intercepts_of_clients_are_said_beside_the_effects(own):
    training = full_training(["a", "b"])
    training["effects"] = {**training["effects"], "own_intercepts": own}
    page = text_of(committee_section(fitted(training)))
    assert ("each client has an intercept of its own" in page) == own
