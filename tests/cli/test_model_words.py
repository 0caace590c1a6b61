"""What the screen says of a model's test: the class that a share is of, and an accuracy that says nothing."""

import numpy as np
import pytest

from fedualex.cli.shown import show
from fedualex.data import Encoder
from fedualex.models import Answers, Model
from fedualex.problems.readings import ClassReading


@pytest.mark.parametrize(
    ("share", "accuracy", "said"),
    [(0.98, 0.98, "the answer well for every row"), (0.02, 0.9, "the answer sick for every row"), (0.6, 0.61, None)],
)
def test_an_accuracy_that_is_not_above_the_frequent_class_is_said(capsys, share, accuracy, said):
    measures = {"rows": 50, "positives": share, "accuracy": accuracy, "auc": 0.9, "loss": 0.1}
    training = {"held_out": {"rows": 50, "overall": measures, "clients": {"a": measures}}}
    encoder = Encoder.fit({"age": np.arange(4.0)})
    answers = Answers(ClassReading(), np.array(["sick", "well"]))
    show(Model(encoder, np.ones(1), np.zeros(()), answers, "outcome", {"gap": 0.1}, training), None)
    text = capsys.readouterr().out
    assert "share of well" in text
    assert ("Its accuracy is not above" in text) == (said is not None)
    assert said is None or said in text
