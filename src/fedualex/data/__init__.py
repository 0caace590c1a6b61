"""Data in: tables from files and collections, partitions among clients, and features from federated moments."""

from .columns import Table, checksum
from .encoder import Coding, Encoder
from .files import BUNDLED, bundled, bundled_table, openml, read_csv, read_npz, read_npz_table, read_parquet
from .moments import Standardizer, Sums, added, sums
from .partitions import by_column, by_size, dirichlet, iid

__all__ = [
    "BUNDLED",
    "Coding",
    "Encoder",
    "Standardizer",
    "Sums",
    "Table",
    "added",
    "bundled",
    "bundled_table",
    "by_column",
    "by_size",
    "checksum",
    "dirichlet",
    "iid",
    "openml",
    "read_csv",
    "read_npz",
    "read_npz_table",
    "read_parquet",
    "sums",
]
