"""Maximization of the area under the ROC curve, as a saddle point that splits over examples."""

from ..validation.accepted import Column, Matrix, Number, Numbers
from .auc_recipe import AucRecipe
from .built_from import built_from
from .client_rows import split_rows
from .general import Problem
from .recipe import assemble
from .rows import class_column, features


@built_from("X", "y", "clients", recipe=AucRecipe)
def auc(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    saddle: bool = True,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_w mean over pairs of (1 - <w, row> + <w, row'>)^2 + l1 ||w||_1 + l2/2 ||w||^2, row positive, row' negative.

    X: n rows of d features; y: n labels of two classes, the second in sorted order being the positive one;
        clients: for each row, whose it is. The pairs are all n+ n- pairs, of different clients too. A row's score is
        <w, row>. sample_weight: a number >= 0 for each row, all alike without it; a pair weighs the product.
    No client can see a pair, but with E+ and E- the means over the rows of a class, m+ and m- the mean scores, the
    mean over pairs is E+ (<w, row> - m+)^2 + E- (<w, row> - m-)^2 + (1 - m+ + m-)^2, which is

        min_{a, b} max_alpha  E+ (<w, row> - a)^2 + E- (<w, row> - b)^2 - 2 (1 + alpha) (m+ - m-) + 1 - alpha^2,

    a mean over rows once the classes' shares of the rows are known: one federated mean. x = {"weights": w, "a": a,
    "b": b}, y = alpha; -alpha^2 is in psi_2. Shifting all rows changes no pair, so rows are taken relative to the
    middle of the two class means mu+ and mu-, which are federated means as well: m+ = -m-.

    Certificates need bounded domains. At a solution w, scaling it by t < 1 does not help: with d = m- - m+ and V the
    two variances, the slope in t at 1 is 2 V + 2 d (1 + d) + l1 ||w||_1 + l2 ||w||^2 <= 0, hence

        -1 <= d <= 0,  a = m+ = -d/2 is in [0, 1/2],  b = m- = d/2 is in [-1/2, 0],  l1 ||w||_1 + l2 ||w||^2 <= 1/2.

    a and b are kept in [0, 1] and [-1, 0]: near a solution d may be below -1. w is kept in L1Ball(1 / (2 l1)) or
    L2Ball((2 l2)^(-1/2)), the one of smaller radius, or in L2Ball(radius) if radius= is given. alpha's best response
    is d: Box(c), c the largest |<w, mu+ - mu->| for w in its ball, has it for every w, so the certificate bounds how
    far the objective over pairs of w is from its minimum.
    At alpha = -min(1, c) the floor of f, which is without -alpha^2, is 1 - 2 (1 + alpha) c, less what rounding may add:
    the squares are >= 0, and m+ - m- = <w, mu+ - mu-> <= c for every w of the ball.

    saddle=False is the same objective without a, b and alpha, for clients that know mu+ and mu- themselves: the plain
    minimization of E+ <w, row - mu+>^2 + E- <w, row - mu->^2 + (1 - <w, mu+ - mu->)^2, in the same ball, floor 0.
    A client with more than d rows keeps d that have the same sum of squares for every w, of a QR decomposition.
    Sparse rows are not shifted, which would fill them: the loss takes the scores of the middle, or of mu+ and mu-, off.
    Ying, Wen, Lyu, Stochastic Online AUC Maximization, NeurIPS 2016.
    """
    recipe = AucRecipe(l1, l2, radius, saddle)
    rows = features(X)
    return assemble(recipe, split_rows(rows, class_column(y, rows.shape[0]), clients, sample_weight))
