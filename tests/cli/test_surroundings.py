"""What the machine may be like: no such device, a locale without letters beyond ASCII."""

import os
import subprocess
import sys


def run(*arguments, **variables):
    command = [sys.executable, "-m", "fedualex", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env={**os.environ, **variables}, check=False, timeout=300)


def test_a_platform_that_is_not_there_and_names_beyond_ascii_in_the_c_locale(tmp_path):
    table = tmp_path / "k.csv"
    lines = [f"{(7 * i) % 11},Z\u00fcrich{i % 2},{int(i % 5 > 1)},K\u00f6ln{i % 3}" for i in range(60)]
    table.write_text("\n".join(["gr\u00f6\u00dfe,ort,ziel,klinik", *lines]) + "\n", encoding="utf-8")
    fit = ("fit", table, "--target", "ziel", "--clients", "klinik", "--out")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    found = run(*fit, tmp_path / "fit", **plain)
    assert found.returncode == 0, found.stderr
    assert "K\u00f6ln0".encode() in found.stdout
    found = run(*fit, tmp_path / "other", JAX_PLATFORMS="cuda")
    assert (found.returncode, found.stderr.count(b"Traceback")) == (2, 0), found.stderr
    assert b"JAX_PLATFORMS must name what this machine has" in found.stderr
