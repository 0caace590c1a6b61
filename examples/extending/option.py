"""A function with an option more than `fx.solve`."""

import inspect

import fedualex as fx
from fedualex.runtime.options import SolveOptions, fields_of, option, options, takes
from fedualex.validation import whole_number


@options
class PatientOptions(SolveOptions):
    """The options of `solve_patiently`."""

    tries: int = option(whole_number, "How often the rounds are doubled until tol is met.", default=3)


@takes(PatientOptions)
def solve_patiently(problem, method, options):
    """Solve with twice as many rounds until tol is met. The options:"""
    given = fields_of(options, SolveOptions)
    for attempt in range(options.tries):
        run = fx.solve(problem, method, **given | {"rounds": options.rounds * 2**attempt})
        if run.status is fx.Status.OPTIMAL:
            break
    return run


assert "tries" in inspect.signature(solve_patiently).parameters
game = fx.problems.matrix_game([[1.0, 0.0], [0.0, 1.0]])
assert solve_patiently(game, fx.FeDualEx(0.5), rounds=10, tol=0.2, tries=2).gap <= 0.2
