"""Servers that lie to real sites behind their own rules: each tries to learn more than the protocol gives it."""

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.consortium import deployment, noting, run_in_threads
from support.patients import HOSPITALS
from support.reconstruction import GOALS, write_sites

from fedualex import models
from fedualex.data import Standardizer
from fedualex.deploy.consortium.deployment import load_site
from fedualex.deploy.consortium.messages import pack_model, read_known, write_known
from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.policy import MOST_BEGUN, MOST_MODELS, MOST_POINTS, POLICY
from fedualex.deploy.secure.sums import MaskError, unmask
from fedualex.deploy.wire import MessageError, pack_known

ROWS = {"east": 40, "north": 34, "west": 30}


@dataclass
class World:
    """Three sites with keys after an honest run under masks, as a server knows them."""

    root: Path
    seen: list[Any]
    sites: dict[str, Any]
    known: list[dict[str, Any]]

    def last(self, task: str) -> Request:
        """The last request for this."""
        return next(request for _, request, _ in reversed(self.seen) if request.task == task)

    def fresh(self, request: Request, rng, **changes) -> Request:
        """The same again, under a new nonce."""
        return replace(request, **{"nonce": rng.bytes(16).hex() if request.nonce else ""} | changes)

    def changed(self, name: str, value) -> list[dict[str, Any]]:
        """Merged summaries in which this array is another."""
        return [{**part, name: value(part[name])} if name in part else part for part in self.known]


def make_world(folder: Path, rule: str = "secure_sums = true\nleast_held_out = 1\n") -> World:
    """Sites that release sums only. Their own folders are copies for each liar, so that none disturbs another."""
    write_sites(folder, ROWS, GOALS["fair"])
    root, seen = deployment(folder, "on", goal="fair", target="outcome", rounds=12, tol=1e-3), []
    for name in HOSPITALS:
        (root / "sites" / name / POLICY).write_text(rule)
    run_in_threads(root, noting(seen))
    return World(root, seen, {}, read_known(root / "server"))


def copy_world(world: World, place: Path) -> World:
    """The same world with sites of its own."""
    root = shutil.copytree(world.root, place / "deployment", dirs_exist_ok=True)
    return replace(world, root=root, sites={name: load_site(root / "sites" / name) for name in HOSPITALS})


def refuses(site, request: Request, words: str) -> None:
    """The site gives no answer, for this reason."""
    with pytest.raises((RefusedError, MessageError), match=re.escape(words)):
        site.work(request)


def no_sum(answers: dict[str, Any]) -> None:
    """The masks of these answers do not cancel, and what is left of them are no numbers of anybody."""
    with pytest.raises(MaskError):
        unmask(answers)


NOT_OURS = "not made of this site's rows"


def _begin(world, rng, known, words=NOT_OURS, name=None):
    request = world.fresh(world.last("begin"), rng, arrays=pack_known(known))
    refuses(world.sites[name or str(rng.choice(HOSPITALS))], request, words)


def one_mass_is_everything(world, rng):
    """[1, 1e-250, 1e-250]: all sites but one would be noise in every sum."""
    small = 10.0 ** -rng.uniform(7, 250)
    _begin(world, rng, world.changed("mass", lambda mass: np.array([1.0, small, small])), name="west")


def masses_of_others_are_tiny(world, rng):
    """This site's own is true."""
    small = 10.0 ** -rng.uniform(7, 250)
    known = world.changed("mass", lambda mass: np.where(np.arange(3) == 0, mass, small))
    _begin(world, rng, known, "weights are within a factor of", "east")


def other_rows(world, rng):
    _begin(world, rng, world.changed("rows", lambda rows: rows + rng.integers(1, 5)))


def a_class_is_left_out(world, rng):
    _begin(world, rng, world.changed("target classes", lambda labels: labels[:1]))


def moments_are_too_small(world, rng):
    factor = rng.uniform(0, 0.05)
    name = str(rng.choice(["squares", "count"]))
    _begin(world, rng, world.changed(name, lambda value: value * factor), name="east")


def columns_are_compared_again_and_again(world, rng):
    """By halving it would find from names of columns what a site's largest value is."""
    for number in range(MOST_BEGUN):
        known = world.changed("total", lambda total, n=number: total + n + rng.random())
        request = world.fresh(world.last("begin"), rng, arrays=pack_known(known))
        if number < MOST_BEGUN - 1:  # the honest run has had one
            world.sites["east"].work(request)
    refuses(world.sites["east"], request, f"compares its columns with {MOST_BEGUN} merged summaries")


def sums_of_classes_are_too_small(world, rng):
    _begin(world, rng, world.changed("class_mass", lambda value: value * 1e-3), name="east")


def one_site_more(world, rng):
    known = world.changed("mass", lambda mass: np.append(mass, 1.0))
    _begin(world, rng, [{**p, **({"rows": np.append(p["rows"], 9)} if "mass" in p else {})} for p in known])


def the_next_summary_is_asked_for_around_other_numbers(world, rng):
    known = world.changed("count", lambda value: value * 0.01)[:1]
    request = world.fresh(world.last("summary"), rng, arrays=pack_known(known))
    refuses(world.sites["east"], request, NOT_OURS)


def _asked_together(world, rng, told):
    """Sites that were told this each, asked for the same survey."""
    for name, known in told.items():
        write_known(world.root / "sites" / name, known)  # as if the site had believed it
    sites = {name: load_site(world.root / "sites" / name) for name in HOSPITALS}
    request = world.fresh(world.last("survey"), rng)
    no_sum({name: site.work(request) for name, site in sites.items()})


def sites_are_told_different_masses(world, rng):
    """Each of them could be true for the site that is told it."""
    other = world.changed("mass", lambda mass: mass * np.array([1.0, 1.0, rng.uniform(0.5, 0.9)]))
    _asked_together(world, rng, {"east": other})


def sites_are_told_different_rows_of_others(world, rng):
    more = np.array([0, 0, rng.integers(1, 9)])
    other = world.changed("rows", lambda rows: rows + more if rows.ndim else rows)
    _asked_together(world, rng, {"north": other})


def _survey(world, rng, y, words):
    asked = world.last("survey")
    arrays = {**asked.arrays, "points.y": np.asarray(y, float).reshape(asked.arrays["points.y"].shape)}
    refuses(world.sites[str(rng.choice(HOSPITALS))], world.fresh(asked, rng, arrays=arrays), words)


DOMAIN = "where the weights of sites are in their domain"


def all_weight_on_one_site(world, rng):
    _survey(world, rng, np.eye(3)[rng.integers(3)], DOMAIN)


def weight_on_two_sites(world, rng):
    """What all sites share alike would be taken back from the third, but for next to nothing."""
    _survey(world, rng, rng.permutation([0.5185, 0.5185, -0.1 / 3 / 0.9 + rng.uniform(-0.1, 1e-3)]), DOMAIN)


def nearly_all_weight_on_one_site(world, rng):
    rest = rng.uniform(1e-250, 0.14)
    _survey(world, rng, rng.permutation([1 - rest, rest / 2, rest / 2]), DOMAIN)


def negative_weights(world, rng):
    """Two sites that cancel leave the third."""
    _survey(world, rng, rng.permutation([1.0, 0.3, -0.3]), DOMAIN)


def thousands_of_points(world, rng):
    asked, count = world.last("survey"), int(rng.integers(MOST_POINTS + 1, 5000))
    arrays = {name: np.repeat(array[:1], count, axis=0) for name, array in asked.arrays.items()}
    refuses(world.sites["east"], world.fresh(asked, rng, arrays=arrays), f"{MOST_POINTS} points in one request")


def one_nonce_twice(world, rng):
    request = world.fresh(world.last("survey"), rng)
    world.sites["west"].work(request)
    refuses(world.sites["west"], request, "masks are used once")


def different_points(world, rng):
    request = world.fresh(world.last("survey"), rng)
    name = "points.x['weights']"
    moved = replace(request, arrays={**request.arrays, name: request.arrays[name] + rng.normal()})
    asked = dict.fromkeys(HOSPITALS, request) | {str(rng.choice(HOSPITALS)): moved}
    no_sum({name: world.sites[name].work(one) for name, one in asked.items()})


def a_site_is_left_out(world, rng):
    request = world.fresh(world.last("survey"), rng)
    answers = {name: world.sites[name].work(request) for name in HOSPITALS}
    answers.pop(str(rng.choice(HOSPITALS)))
    no_sum(answers)


def in_the_clear(world, rng):
    task = str(rng.choice(["survey", "measure", "summary"]))
    request = replace(world.last(task), nonce="", roster="")
    refuses(world.sites["north"], request, "leaves this site in secure sums only")


def other_keys(world, rng):
    refuses(world.sites["east"], world.fresh(world.last("survey"), rng, roster="0" * 64), "another list of keys")


def another_task_or_run(world, rng):
    asked = world.fresh(world.last("survey"), rng)
    if rng.random() < 0.5:
        refuses(world.sites["east"], replace(asked, task="rows"), "task must be one of")
    else:
        refuses(world.sites["east"], replace(asked, run_id="0123456789abcdef-1"), "were told different tasks")


def many_models(world, rng):
    """Crafted models whose measures would be single values; the honest run has had its own measured."""
    honest = models.load(world.root / "server")
    asked, site = world.last("measure"), world.sites["east"]

    def measure(number):
        model = replace(honest, bias=np.asarray(honest.bias + number + rng.random()), training={}, certificate={})
        return world.fresh(asked, rng, arrays=pack_model(model))

    for number in range(1, MOST_MODELS):
        site.work(measure(number))
    refuses(site, measure(MOST_MODELS), f"measures {MOST_MODELS} models for one kit")
    site.work(world.fresh(asked, rng))  # the first again, after a lost reply


def models_of_another_kind(world, rng):
    """An encoder or a threshold of its own choice turns a measure into a question about single values."""
    honest = models.load(world.root / "server")
    scale = honest.encoder.standardizer
    if rng.random() < 0.5:
        scaled = Standardizer(scale.mean + rng.normal(size=scale.mean.shape), scale.deviation)
        model = replace(honest, encoder=replace(honest.encoder, standardizer=scaled))
    else:
        model = replace(honest, answers=replace(honest.answers, threshold=float(rng.normal())))
    request = world.fresh(world.last("measure"), rng, arrays=pack_model(model))
    refuses(world.sites["north"], request, "the encoder and the answers of its own run")


def runs_of_other_names(world, rng):
    """Numbers count for the kit, whatever the server calls its run."""
    folder = world.root / "sites" / "west"
    (folder / POLICY).write_text("secure_sums = true\nnumbers_per_run = 1\n")
    asked = world.fresh(world.last("survey"), rng)
    run = asked.run_id.partition("-")[0] + f"-{rng.integers(1000)}"
    refuses(load_site(folder), replace(asked, run_id=run), "releases 1 numbers for one kit")


LIARS = [
    one_mass_is_everything,
    masses_of_others_are_tiny,
    other_rows,
    a_class_is_left_out,
    moments_are_too_small,
    sums_of_classes_are_too_small,
    columns_are_compared_again_and_again,
    one_site_more,
    the_next_summary_is_asked_for_around_other_numbers,
    sites_are_told_different_masses,
    sites_are_told_different_rows_of_others,
    all_weight_on_one_site,
    weight_on_two_sites,
    nearly_all_weight_on_one_site,
    negative_weights,
    thousands_of_points,
    one_nonce_twice,
    different_points,
    a_site_is_left_out,
    in_the_clear,
    other_keys,
    another_task_or_run,
    many_models,
    models_of_another_kind,
    runs_of_other_names,
]
"""Each takes a world of its own and random numbers, and fails if it learns something."""
