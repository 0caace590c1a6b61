"""Methods side by side on the field's problems: every one tuned by the same budget, scored by the certificate."""

from .benchmark import LEVELS, Benchmark, Plan, Result, benchmark
from .page import count_solved, headline, write_page
from .tasks import FIELD, METHODS, Entrant, Task, breast_cancer_times, heart, read_additions

__all__ = [
    "FIELD",
    "LEVELS",
    "METHODS",
    "Benchmark",
    "Entrant",
    "Plan",
    "Result",
    "Task",
    "benchmark",
    "breast_cancer_times",
    "count_solved",
    "headline",
    "heart",
    "read_additions",
    "write_page",
]
