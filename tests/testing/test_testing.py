"""The public law checkers: they pass what is right and name what is wrong."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from support.catalogue import CATALOGUE

import fedualex as fx
from fedualex import tree
from fedualex.algorithms.base import AbstractMethod, StepSize, step
from fedualex.algorithms.primal import AbstractPlainMethod, descend
from fedualex.compiling import double_available
from fedualex.geometry import Euclidean
from fedualex.regularizers import AbstractPenalty
from fedualex.runs.settings import PROTOCOL


class Huber(AbstractPenalty):
    """A user's own regularizer: sum of x^2/2 near 0, |x| - 1/2 beyond 1."""

    def value(self, x):
        return jnp.sum(jnp.where(jnp.abs(x) <= 1, jnp.square(x) / 2, jnp.abs(x) - 0.5))

    def prox(self, omega, weight):
        omega = jnp.asarray(omega)
        weight = jnp.asarray(weight, omega.dtype)
        return jnp.where(jnp.abs(omega) <= 1 + weight, omega / (1 + weight), omega - weight * jnp.sign(omega))

    def conjugate(self, s):
        return jnp.where(jnp.max(jnp.abs(s)) <= 1, jnp.sum(jnp.square(s)) / 2, jnp.inf)

    def subgradient(self, x):
        return jnp.clip(x, -1, 1)

    finite_conjugate = False
    absolutely_symmetric = True


class WrongProx(Huber):
    def prox(self, omega, weight):
        return jnp.asarray(omega) / (1 + weight)


class WrongConjugate(Huber):
    def conjugate(self, s):
        return super().conjugate(s) * 1.01


class WrongSubgradient(Huber):
    def subgradient(self, x):
        return jnp.sign(x)


class WrongViolation(fx.Box):
    def violation(self, x):
        return jnp.zeros(())


class WrongFiniteness(fx.L1):
    finite_conjugate = True


class WrongSymmetry(Huber):
    def value(self, x):
        return super().value(x) + jnp.sum(jnp.asarray(x)[:1])


class WrongDtype(Huber):
    def prox(self, omega, weight):
        return super().prox(omega, weight).astype(jnp.float64 if double_available() else jnp.float16)


class WrongWeight(Euclidean):
    def primal(self, dual):
        return self.regularizer.prox(dual.omega, dual.tau / 2)


class WrongNorm(Euclidean):
    def norm(self, z):
        return 2 * super().norm(z)


class WrongSize(Euclidean):
    def B0(self, omega0):
        return super().B0(omega0) / 4


@pytest.mark.slow
def test_shapes_are_found_if_none_is_given():
    fx.testing.check_regularizer(fx.L1(0.1))
    fx.testing.check_regularizer(fx.Spectral(fx.L1(0.1), "svd"), samples=3)
    fx.testing.check_regularizer(fx.GroupL2(0.1, np.arange(6).reshape(2, 3)), samples=3)
    fx.testing.check_geometry(fx.Product({"w": fx.Box(1.0), "p": fx.EntropicSimplex()}), samples=3)


def test_a_users_own_regularizer_passes_and_works_in_a_problem():
    fx.testing.check_regularizer(Huber(), np.zeros(4))
    fx.testing.check_geometry(fx.Euclidean(Huber()), np.zeros(4))
    game = fx.problems.bilinear(np.eye(3), np.ones(3), x=Huber() + fx.SquaredL2(1.0), y=fx.Box(1.0))
    assert game.certificate(fx.Saddle(np.zeros(3), np.ones(3))).gap > 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("psi", "law"),
    [
        (WrongProx(), "prox is the argmin"),
        (WrongConjugate(), "the conjugate is attained"),
        (WrongSubgradient(), "subgradient inequality"),
        (WrongViolation(0.5), "violation sees what projection moves"),
        (WrongFiniteness(5.0), "finite_conjugate"),
        (WrongSymmetry(), "absolutely_symmetric is true"),
        (WrongDtype(), "prox turns float32"),
    ],
)
def test_a_wrong_regularizer_is_caught_by_name(psi, law):
    with pytest.raises(AssertionError, match=law):
        fx.testing.check_regularizer(psi, np.zeros(4))


@pytest.mark.parametrize(
    ("kind", "law"),
    [(WrongWeight, "conjugate is attained|argmin"), (WrongNorm, r"norm\^2 / 2"), (WrongSize, "no point is beyond B0")],
)
def test_a_wrong_geometry_is_caught_by_name(kind, law):
    with pytest.raises(AssertionError, match=law):
        fx.testing.check_geometry(kind(fx.L1(0.3) + fx.Box(0.5)), np.zeros(4))


METHODS = [name for name in fx.algorithms.__all__ if name not in PROTOCOL]
PSI_TWICE = ("FedMiD", "FedMiP")
"""As printed, clients and server both apply psi."""
WITHOUT_Y = ("SDANE",)
"""For minimization alone, where the checker has games: tests/algorithms/test_rivals.py has their laws."""


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", sorted(METHODS, key=lambda name: name != "FeDualEx"))
def test_every_method_of_the_library_keeps_the_laws(name):
    if not isinstance(getattr(fx, name)(), AbstractMethod):
        with pytest.raises(TypeError, match="which asks for exchanges"):
            fx.testing.check_method(getattr(fx, name)())
        return
    if name in WITHOUT_Y:
        with pytest.raises(AssertionError, match="some small game is not refused"):
            fx.testing.check_method(getattr(fx, name)())
        return
    fx.testing.check_method(getattr(fx, name)(), composite=name not in PSI_TWICE)


class PlainDescent(AbstractPlainMethod):
    """A user's own method, which the wrong ones below spoil: z <- project(z - eta_c (g + s)(z))."""

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local, oracle, geometry):
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.move(z, self.eta_c), z, self.eta_c


class WrongTheory(PlainDescent):
    def theory_steps(self, eta, beta, rounds):
        return {"eta": eta}


class WrongStepField(PlainDescent):
    eta_c: float = eqx.field(static=True, default=0.1, metadata={"step": True})


class WrongSurvey(PlainDescent):
    survey = "sometimes"


class WrongSign(PlainDescent):
    def local_step(self, local, oracle, geometry):
        return super().local_step(local, lambda z, s: tree.scale(-1.0, oracle(z, s)), geometry)


class WrongPrecision(PlainDescent):
    def server_step(self, server, message, geometry, fraction):
        return tree.cast(super().server_step(server, message, geometry, fraction), jnp.float64)


class WrongProbe(PlainDescent):
    def read(self, probe, geometry):
        return probe.x


class WrongProbeWeight(PlainDescent):
    def local_step(self, local, oracle, geometry):
        local, probe, weight = super().local_step(local, oracle, geometry)
        return local, probe, -weight


class WrongLinearity(PlainDescent):
    linear_sample = 0


class WrongPrivacy(PlainDescent):
    private = True


class WrongPoint(fx.FeDualEx):
    def point(self, server, geometry):
        return server.omega


class RefusesEverything(PlainDescent):
    def refusal(self, problem, clients, local_steps):
        return "never"


@pytest.mark.parametrize(
    ("method", "law"),
    [
        (WrongTheory(), "theory_steps gives every missing step"),
        (WrongStepField(), "a step size is an array"),
        (WrongSurvey(), "survey is none, fresh or stale"),
        (RefusesEverything(), "some small game is not refused"),
        (WrongPrecision(), "server_step keeps the server state's shapes and precision"),
        (WrongProbe(), "a probe is read as a point"),
        (WrongPrivacy(), "a private method sends one increment of a dual pair"),
        (WrongProbeWeight(), "a probe's weight is >= 0"),
        (WrongLinearity(), "linear_sample enters nothing but the next state"),
        (WrongSign(), "an exact run approaches the saddle point"),
        pytest.param(WrongPoint(), "is in the domain|approaches", marks=pytest.mark.slow),
        pytest.param(fx.FedMiD(), "an exact run approaches the saddle point", marks=pytest.mark.slow),
    ],
)
def test_a_wrong_method_is_caught_by_name(method, law):
    with pytest.raises(AssertionError, match=law):
        fx.testing.check_method(method)


PROBLEMS = {
    "game": lambda: fx.problems.bilinear(np.eye(2), [0.3, 0.1], x=fx.Box(1.0), y=fx.Box(1.0)),
    "simplices, game": lambda: fx.problems.matrix_game(np.eye(3)),
    "matrices, game": lambda: fx.problems.bilinear(
        np.eye(2), np.eye(2), x=fx.Spectral(fx.Box(0.5)), y=fx.Spectral(fx.Box(0.5))
    ),
    **CATALOGUE,
}
FAST = ("game", "simplices, game", "auc")


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in PROBLEMS]
)
def test_problems_of_the_library_keep_the_laws(name):
    fx.testing.check_problem(PROBLEMS[name]())


def loss_of_example(x, y, example):
    return example * x @ y + 0.5 * x @ x - 0.5 * y @ y


class Spoiled(fx.Problem):
    """Two clients with a loss of their own, which the wrong ones below spoil."""

    def __init__(self, f=loss_of_example):
        like = fx.Saddle(np.zeros(2), np.zeros(2))
        data = [np.array([1.0, 2.0]), np.array([3.0])]
        super().__init__(f, x=fx.Box(1.0), y=fx.Box(1.0), like=like, data=data)


class WrongOperator(Spoiled):
    def operator(self, z):
        return tree.scale(2.0, super().operator(z))


class WrongWeights(Spoiled):
    def client_weights(self, clients):
        return np.array([0.9, 0.1])


class WrongView(Spoiled):
    def of_client(self, m):
        return super().of_client(0 if m else 1)


class WrongServer(Spoiled):
    def without_data(self):
        return self


class WrongMinibatch(Spoiled):
    def minibatch_operator(self, client, z, size, key):
        return tree.scale(1.5, super().minibatch_operator(client, z, size, key))


class WrongReweighting(Spoiled):
    def reweighted(self, weights):
        return self


class WrongBilinearity(Spoiled):
    bilinear = True


class WrongCertificate(Spoiled):
    def certificate(self, z):
        return fx.problems.Certificate(0.0, 0.0)


class WrongSurvey(Spoiled):
    def survey(self, z):
        found = super().survey(z)
        return found._replace(value=found.value + 1e-6)


def with_floor(value, each=False):
    return fx.Problem(
        lambda x, example: (example * x - 1) ** 2,
        x=fx.Box(1.0),
        like=fx.Saddle(np.zeros(())),
        data=[np.array([1.0]), np.array([-1.0, -2.0])],
        floor=fx.problems.Floor(None, value, each=each),
    )


def convex_in_y(x, y, example):
    return example * x @ y + 0.5 * x @ x + 0.5 * y @ y


@pytest.mark.slow
def test_a_users_own_problem_keeps_the_laws():
    fx.testing.check_problem(Spoiled(), samples=5)


@pytest.mark.slow
def test_a_right_floor_keeps_the_laws():
    fx.testing.check_problem(with_floor(0.5), samples=2)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("problem", "law"),
    [
        (WrongOperator(), r"the operator is \(grad_x f, -grad_y f\)"),
        (WrongBilinearity(), "bilinear is true"),
        (WrongCertificate(), "a certificate is no less than a lower bound of the gap"),
        (WrongWeights(), "the weighted mean of client operators is the operator"),
        (WrongView(), "of_client has the operator of that client"),
        (WrongServer(), "without_data holds no data"),
        (WrongMinibatch(), "minibatches are unbiased"),
        (WrongReweighting(), "reweighted to one client has its operator"),
        (WrongSurvey(), "a survey is the operator and the loss"),
        (with_floor(0.97), "f is never below its floor"),  # the least f is 0.964
        (with_floor(0.5, each=True), "f of a client is never below the floor that it keeps"),
        (Spoiled(convex_in_y), "f is convex in x and concave in y"),
    ],
)
def test_a_wrong_problem_is_caught_by_name(problem, law):
    with pytest.raises(AssertionError, match=law):
        fx.testing.check_problem(problem, samples=3)


def test_a_problem_without_its_data_is_refused():
    with pytest.raises(ValueError, match="must have its data here"):
        fx.testing.check_problem(Spoiled().without_data())
