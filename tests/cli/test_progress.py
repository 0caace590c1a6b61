"""What long commands say on the way where there is no terminal."""

from fedualex.cli import paper as reproduce


def test_lines_when_a_stage_begins_and_ends_and_in_between_every_ten_seconds(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 3.0, 12.0, 15.0, 16.0])
    monkeypatch.setattr(reproduce.time, "perf_counter", lambda: next(clock))
    show = reproduce._lines()
    for done in range(5):
        show("l1-k1 (1 of 4)", "grid", done, 4)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "l1-k1 (1 of 4): grid: 0 of 4 done, 1 s since the start",
        "l1-k1 (1 of 4): grid: 2 of 4 done, 12 s since the start",
        "l1-k1 (1 of 4): grid: 4 of 4 done, 16 s since the start",
    ]
