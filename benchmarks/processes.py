"""Measurements in processes of their own, taken in turns."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPEATS = 5
Times = dict[str, float]


def answer(script: str, *arguments: object, **environment: str) -> Any:
    """What a script of this folder prints, read as JSON."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    if done.returncode:
        raise SystemExit(f"{' '.join([script, *command[2:]])} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def interleaved(contenders: dict[str, Callable[[], Times]], repeats: int = REPEATS) -> dict[str, Times]:
    """The medians of each contender's repeats, taken in turns."""
    found: dict[str, list[Times]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, measure in contenders.items():
            found[name].append(measure())
    return {name: {key: statistics.median(one[key] for one in many) for key in many[0]} for name, many in found.items()}


def show(workload: str, medians: dict[str, Times]) -> None:
    """Contenders with ratios to ours."""
    print(workload)
    ours = medians["fedualex"]
    for name, median in medians.items():
        speed = f"{1e3 / median['wall_ms']:8.1f} rounds/s {median['cpu_ms']:8.2f} CPU ms a round"
        ratios = [median[key] / ours[key] for key in ("wall_ms", "cpu_ms")]
        print(f"  {name:14s} {speed}   ours is {ratios[0]:6.1f}x (CPU {ratios[1]:6.1f}x)", flush=True)
