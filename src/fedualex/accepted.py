"""What callers may give, as type checkers and editors read it.

At run time these are anything: what is wrong has to reach the check that refuses it in one sentence.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol, SupportsIndex

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
    Numbers = ArrayLike
    """Real numbers: an array, a column of a table, a list."""
    Column = ArrayLike
    """One label or number for each row."""
    Matrix = ArrayLike | _Sparse
    """A matrix with one row for each example; a sparse one of scipy where the function says so."""
else:
    Number = Whole = Numbers = Column = Matrix = Columns = Any
