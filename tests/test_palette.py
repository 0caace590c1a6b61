"""One table of looks: fixed by method, different within a figure, and far enough from white and from black."""

import itertools

import pytest

from fedualex.palette import COLORS, ON_DARK, PLACES, style, styles


def brightness(color):
    """Relative luminance, as the guidelines for accessible pages define it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_method_looks_the_same_wherever_it_is_drawn():
    alone = {name: styles({name: name})[name] for name in ("FeDualEx", "FedDualAvg", "FedMiP", "FedMiD")}
    for order in itertools.permutations(alone):
        assert styles({name: name for name in order}) == alone
    paper = styles({"FedMiP plain averaging": "FedMiP", "FedMiP as printed": "FedMiP", "FeDualEx": "FeDualEx"})
    assert paper["FedMiP plain averaging"] == alone["FedMiP"] != paper["FedMiP as printed"]
    settings = styles({"FeDualSlide, survey": "FeDualSlide", "FeDualSlide, local": "FeDualSlide"})
    assert {look.color for look in settings.values()} == {styles({"FeDualSlide": "FeDualSlide"})["FeDualSlide"].color}
    assert styles({"ours": "FeDualEx", "theirs": "FedMiP"}) == {"ours": alone["FeDualEx"], "theirs": alone["FedMiP"]}


@pytest.mark.parametrize("count", [1, 5, 40])
def test_no_two_curves_of_a_figure_look_alike(count):
    one_method = styles({f"FeDualEx {i}": "FeDualEx" for i in range(count)})
    unknown = styles({f"mine {i}": f"Method{i}" for i in range(count)})
    mixed = styles({"mine": "Mine", **{name: name for name in PLACES if " " not in name}})
    for found in (one_method, unknown, mixed):
        assert len({(look.color, look.dash, look.marker) for look in found.values()}) == len(found)
    assert one_method["FeDualEx 0"] == style(0)


@pytest.mark.parametrize(("colors", "page", "least"), [(COLORS, "#ffffff", 2.0), (ON_DARK, "#14181c", 5.0)])
def test_colors_stand_out_from_the_page(colors, page, least):
    """Dashes and markers tell curves apart as well, so that light hues of the paper's kind are enough on white."""
    for color in colors:
        high, low = sorted((brightness(color), brightness(page)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= least, color
