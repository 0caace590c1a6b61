"""Files that a crash cannot spoil, and links that somebody has put in their way."""

import ast
import io
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedualex.storage import arrays_within, lock, read_arrays, write_atomically


def test_a_planted_link_is_not_followed(tmp_path):
    """A link of the name that was once that of the temporary file, and one in place of the file itself."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out.csv.tmp").symlink_to(victim)
    (tmp_path / "out.csv").symlink_to(victim)
    write_atomically(tmp_path / "out.csv", b"new")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out.csv").is_symlink()
    assert (tmp_path / "out.csv").read_bytes() == b"new"


def test_names_are_new_each_time_and_nothing_stays(tmp_path, monkeypatch):
    opened = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, flags, *mode: (opened.append((str(path), flags)), real(path, flags, *mode))[1]
    )
    for _ in range(2):
        write_atomically(tmp_path / "out", b"x")
    names = [path for path, flags in opened if flags & os.O_CREAT]
    assert len(set(names)) == 2
    assert all(os.path.dirname(name) == str(tmp_path) for name in names)
    assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for path, flags in opened if flags & os.O_CREAT)
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        write_atomically(tmp_path / "other", b"x")
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_has_the_mode_of_the_user_and_a_lock_is_no_link(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "out", b"x")
    finally:
        os.umask(before)
    assert oct((tmp_path / "out").stat().st_mode & 0o777) == "0o640"
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), lock(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("reader", [read_arrays, lambda path: arrays_within(path.read_bytes(), 10_000)])
def test_threads_read_headers_one_at_a_time(tmp_path, monkeypatch, reader):
    """Python before 3.11.8 fails where two threads parse at once, as numpy does for each header."""
    buffer = io.BytesIO()
    np.savez(buffer, **{f"a{k}": np.full((3, k), 2.0) for k in range(5)})
    write_atomically(tmp_path / "a.npz", buffer.getvalue())
    parse, busy, most = ast.literal_eval, [], []

    def slow_parse(text):
        busy.append(text)
        most.append(len(busy))
        time.sleep(0.001)
        busy.pop()
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", slow_parse)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(reader, [tmp_path / "a.npz"] * 8))
    assert len(most) >= 8 * 5
    assert max(most) == 1
    for arrays in answers:
        assert {name: array.shape for name, array in arrays.items()} == {f"a{k}": (3, k) for k in range(5)}
