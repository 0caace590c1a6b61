"""Which arrays of an answer are only ever added up over sites, and so can leave under masks."""

WORDS = {
    "message": 2,
    "points": 2,
    "point_weight": 2,
    "probes": 2,
    "probe_weights": 2,
    "shares": 2,
    "operators": 2,
    "values": 2,
    "sums": 3,
}
"""By the first part of their names, and how many words of 64 bits each number takes: sums over the rows of a table may
be large. What is not here (maxima, labels and what is kept for each site apart) travels as it is."""

SUMMED = ("summary", "survey", "round")
"""The tasks whose answers are added up; to others a site answers as it is."""
FEWEST = 3
"""With two sites each knows the other's numbers from the sum, so that masks would hide nothing from it."""


def first_part(name: str) -> str:
    """`operators` of `operators.x.weights`: what docs/deployment.md calls an array."""
    return name.partition(".")[0]


def is_summed(name: str) -> bool:
    """Whether this array is added up over sites."""
    return first_part(name) in WORDS
