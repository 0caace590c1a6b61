"""What callers may give, as type checkers and editors read it.

At run time these are anything: what is wrong has to reach the check that refuses it in one sentence.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, Protocol, SupportsIndex

    import jax
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    class _Sparse(Protocol):
        def tocsr(self) -> Any: ...

    class Columns(Protocol):
        """A table by the names of its columns: of ours, a data frame, a dict."""

        def __contains__(self, name: object, /) -> bool: ...

        def __getitem__(self, name: str, /) -> Any: ...

    Number = float | np.floating[Any] | np.integer[Any] | NDArray[Any] | jax.Array
    """One real number of Python, numpy or jax."""
    Whole = SupportsIndex
    """A whole number of Python or numpy."""
    Switch = bool
    """True or False."""
    Penalty = Number | Literal["auto"]
    """A penalty, or that held-out rows choose it."""
    Folds = int | Literal["sites"]
    """How many parts rows are dealt into, or that one client after the other is held out."""
    Limits = Number | Mapping[Any, Number]
    """The largest loss of groups: of all, or by their names."""
    ClassWeight = Literal["balanced"] | Mapping[Any, Number]
    """What each class weighs."""
    Numbers = ArrayLike
    """Real numbers: an array, a column of a table, a list."""
    Column = ArrayLike
    """One label or number for each row."""
    Matrix = ArrayLike | _Sparse
    """A matrix with one row for each example; a sparse one of scipy where the function says so."""
else:
    Number = Whole = Switch = Penalty = Folds = Limits = ClassWeight = Numbers = Column = Matrix = Columns = Any
