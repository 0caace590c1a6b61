"""Problems of tables at several parties: from summaries alone they are what `fit` makes of the union, to the last bit."""

import jax
import numpy as np
import pytest
from support.consortium import GOAL_SETTINGS, known_of, parts_of, recipe_for
from support.patients import HOSPITALS, write

from fedualex.deploy.wire import pack_known, pack_summary, unpack_known, unpack_summary
from fedualex.tables.fit import plan_fit
from fedualex.tables.party import Party


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    write(path / "patients.csv")
    return path


@pytest.mark.parametrize("goal", GOAL_SETTINGS)
def test_summaries_of_parties_make_the_problem_of_the_union(place, goal):
    settings = GOAL_SETTINGS[goal]
    fit = plan_fit({"table": "patients.csv", "clients": "hospital", "goal": goal, **settings}, place)
    recipe, parts = recipe_for(goal), parts_of(place / "patients.csv", settings["target"])
    known = known_of(recipe, parts)
    whole = fit.configuration.problem
    assert repr(recipe.problem(known, "elsewhere").geometry) == repr(whole.geometry)
    np.testing.assert_array_equal(recipe.party_weights(known), whole.client_weights(len(HOSPITALS)))
    assert recipe.encoder(known).features == fit.encoder.features
    for m, table in enumerate(parts.values()):
        own = recipe.problem(known, [Party(recipe, m, table).examples(known)])
        count = int(own.data.counts[0])
        assert count == int(whole.data.counts[m])
        for mine, all_of_them in zip(
            jax.tree.leaves(own.data.examples), jax.tree.leaves(whole.data.examples), strict=True
        ):
            np.testing.assert_array_equal(mine[0, :count], all_of_them[m, :count])


def test_summaries_travel_as_arrays_of_numbers(place):
    recipe, parts = recipe_for("fair"), parts_of(place / "patients.csv")
    known = known_of(recipe, parts)
    for name, table in parts.items():
        sent = Party(recipe, list(parts).index(name), table).summarize(known[:1])
        arrays = pack_summary(sent)
        assert all(array.dtype.kind in "iuf" for array in arrays.values())
        back = unpack_summary(arrays)
        assert back.shapes == sent.shapes
        assert back.labels["categories of town"].tolist() == ["Lima", "Oslo", "Rome"]
    again = unpack_known(pack_known(known))
    for before, after in zip(known, again, strict=True):
        assert before.keys() == after.keys()
        for name in before:
            np.testing.assert_array_equal(before[name], after[name])
