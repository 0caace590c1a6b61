"""Exact operators and values of a problem at points: compiled, or by numpy where rows are read block by block."""

import jax

from ..certificates.surveys import Surveyed
from ..compiling import compile_by_size
from ..problems import AbstractProblem
from ..problems.stored import HeldClients
from ..tree import Tree


def operator_at(problem: AbstractProblem, z: Tree) -> Tree:
    """The exact operator at z."""
    return survey_at(problem, z).operator if _is_held(problem) else _operator_at(problem, z)


@compile_by_size
def _operator_at(problem: AbstractProblem, z: Tree) -> Tree:
    return problem.operator(z)


@compile_by_size
def surveys_at(problem: AbstractProblem, points: Tree) -> Surveyed:
    """The exact operator and f at each point along the first axis."""
    return jax.lax.map(problem.survey, points)


def survey_at(problem: AbstractProblem, z: Tree) -> Surveyed:
    """The exact operator and f at z, by numpy where rows are read block by block."""
    return problem.survey(z) if _is_held(problem) else _survey_at(problem, z)


@compile_by_size
def _survey_at(problem: AbstractProblem, z: Tree) -> Surveyed:
    return problem.survey(z)


def _is_held(problem: AbstractProblem) -> bool:
    return isinstance(problem.data, HeldClients)
