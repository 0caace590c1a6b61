"""A Parquet table of so many rows of 50 float32 columns of normal numbers, with a target of two classes, in blocks.

python benchmarks/parquet_table.py ROWS FILE
"""

import sys

import numpy as np

COLUMNS, BLOCK = 50, 2**17


def write_table(rows: int, path: str, seed: int = 0) -> None:
    """The first ten columns tell something of the target."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    weights = rng.normal(size=10)
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, rows, BLOCK):
            X = rng.standard_normal((min(BLOCK, rows - first), COLUMNS), np.float32)
            y = rng.random(len(X)) < 1 / (1 + np.exp(-X[:, :10] @ weights))
            writer.write_table(pa.table([*X.T, y.astype(np.int8)], schema))


if __name__ == "__main__":
    write_table(int(sys.argv[1]), sys.argv[2])
