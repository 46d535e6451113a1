"""What the README shows of the demo is what the commands print."""

from __future__ import annotations

from pathlib import Path

from shell import CCLTUI, run

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_sentence_and_the_numbers_of_the_demo(tmp_path: Path) -> None:
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    demo = tmp_path / "demo"
    assert run((*CCLTUI, "demo"), demo, "--no-open").returncode == 0

    explained = run((*CCLTUI, "explain"), demo).stdout.splitlines()
    lag = run(CCLTUI, demo, "--metric", "straggler_lag").stdout

    (headline,) = [line for line in explained if line.startswith("**")]
    assert headline in shown
    rows = {tuple(line.split()[:2]): line for line in shown.splitlines()}
    for line in filter(None, lag.splitlines()):
        _, key, value, *_ = line.split()
        # the last digits of sums differ between processors
        assert value[:10] in rows["straggler_lag" if key != "key" else "metric", key]
