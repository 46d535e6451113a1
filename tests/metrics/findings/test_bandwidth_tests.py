"""Tests of nccl-tests side by side: the slow one among those alike, and other operations."""

from __future__ import annotations

from pathlib import Path

from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of

HEADER = (
    "#       size    count   type  redop   root    time  algbw  busbw #wrong    time  algbw  busbw"
    " #wrong\n"
    "#        (B) (elements)                       (us) (GB/s) (GB/s)           (us) (GB/s) (GB/s)"
    "\n"
)


def printed(operation: str, rates: list[float], hosts: tuple[str, ...] = ("a", "b")) -> str:
    """Print a test of one size a rate, with a rank on each host."""
    text = f"# Collective test starting: {operation}_perf\n# Using devices\n"
    for rank, host in enumerate(hosts):
        place = f"Pid {rank + 9} on {host} device  0 [0000:1b:00] NVIDIA H100"
        text += f"#  Rank  {rank} Group  0 {place}\n"
    text += HEADER
    for number, rate in enumerate(rates):
        size, row = 1 << (25 + number), f"1000.0   {rate:.2f}   {rate:.2f}      0"
        text += f"{size:12d} {size // 4:13d}     float     sum      -1   {row}   {row}\n"
    return text + f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {rates[0]}\n"


def told(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return [f"{one.text} {one.more}".strip() for one in answer_of(view_of(folder)).findings]


def test_the_pair_of_hosts_that_is_slow(tmp_path: Path) -> None:
    pairs = {f"pair_{number}": printed("sendrecv", [40.0, 48.0 + number]) for number in range(4)}
    pairs["pair_2"] = printed("sendrecv", [20.0, 24.0])

    first, second = told(tmp_path, **pairs)

    assert first == (
        "Sendrecv of pair_2.log reaches 24 GB/s of bus bandwidth, the median of 4 such tests is "
        "48.5 GB/s (nccl-tests)."
    )
    assert second.startswith("Sendrecv reaches at most 48 GB/s of bus bandwidth on 2 ranks")


def test_tests_of_other_sizes_or_ranks_are_not_compared(tmp_path: Path) -> None:
    files = {
        "one": printed("sendrecv", [40.0, 48.0]),
        "two": printed("sendrecv", [40.0, 48.0]),
        "cut": printed("sendrecv", [20.0]),
        "within_a": printed("sendrecv", [180.0, 200.0], hosts=("a", "a")),
        "within_b": printed("sendrecv", [180.0, 200.0], hosts=("b", "b")),
        "four": printed("sendrecv", [10.0, 12.0], hosts=("a", "b", "c", "d")),
    }

    (only,) = told(tmp_path, **files)

    assert "such tests" not in only


def test_other_operations_in_the_same_file(tmp_path: Path) -> None:
    text = printed("alltoall", [30.0]) + printed("sendrecv", [20.0])

    (only,) = told(tmp_path, both=text)

    assert "other tests: sendrecv 20 GB/s" in only
