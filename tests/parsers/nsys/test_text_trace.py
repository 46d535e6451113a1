"""Printed traces and tables of nsys stats."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsys_exports import Export

from ccltui.metrics.nsys_reports.make_report import make_report
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers import nsys as sniff
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import Job, open_job
from ccltui.parsers.nsys.report_tables import read_report_tables
from ccltui.parsers.nsys.stats_text import parse_stats_text, read_stats_text
from ccltui.parsers.nsys.text_trace import read_text_trace
from ccltui.parsers.nsys.typed_columns import parse_numbers
from ccltui.parsers.nsys.typed_table import StatsText
from ccltui.report.nsys_writers import parse_layout, write_reports

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm *)"
SUFFIXES = {"column": "txt", "table": "txt", "csv": "csv", "tsv": "tsv", "json": "json"}


def recording(path: Path) -> Path:
    """Two devices, 30 all-reduces in which device 1 arrives 5 us late and both end together."""
    export = Export()
    process = export.process(100)
    for device in (0, 1):
        export.add("TARGET_INFO_GPU", id=device, name="NVIDIA A100")
    for step in range(30):
        at = 1_000_000 + 100_000 * step + 7 * step * step
        for device in (0, 1):
            late = 5_000 * device
            process.kernel("gemm<float, 2>(float *)", at - 40_000, at - 10_000, device=device)
            process.kernel(REDUCE, at + late, at + 30_000, device=device, stream=20)
            process.copy(at + 40_000, at + 41_000, 2_000_000, device=device)
    return export.write(path)


def printed(export: Path, target: Path, layout: str) -> Path:
    """Print the trace of an export in one of the formats of nsys."""
    report = make_report("cuda_gpu_trace", read_report_tables(export))
    target.write_bytes(write_reports([("", [report])], parse_layout(layout)))
    return target


@pytest.fixture
def export(tmp_path: Path) -> Path:
    tmp_path.joinpath("recorded").mkdir()
    return recording(tmp_path / "recorded" / "node0.sqlite")


def job_of(path: Path, tmp_path: Path) -> Job:
    return open_job(path, cache_dir=tmp_path / "cache")


def events(trace: RankTrace) -> list[tuple[int, int, str]]:
    gpu = trace.group("gpu")
    names = [trace.text(name) for name in gpu.name.tolist()]
    base = int(gpu.start_ns.min())
    rows = zip((gpu.start_ns - base).tolist(), (gpu.end_ns - base).tolist(), names, strict=True)
    return sorted(rows)


@pytest.mark.parametrize("layout", ["column", "table", "csv", "tsv", "json", "csv:time=us"])
def test_a_text_has_the_events_of_its_export(tmp_path: Path, export: Path, layout: str) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    name = f"node0_cuda_gpu_trace.{SUFFIXES[layout.partition(':')[0]]}"
    text = printed(export, folder / name, layout)

    of_text, of_export = job_of(folder, tmp_path), job_of(export.parent, tmp_path)

    assert [file.kind for file in discover(folder).files] == ["nsys_text_trace"]
    assert [events(rank) for rank in of_text.ranks] == [events(rank) for rank in of_export.ranks]
    assert [rank.devices[0].name for rank in of_text.ranks] == ["NVIDIA A100"] * 2
    assert text.name in of_text.ranks[0].source.path
    assert any(note.code == "text_trace" for note in of_text.ranks[0].notes)


@pytest.mark.parametrize(
    "name", ["coll_call_num", "straggler_lag", "idle_ratio", "communication_fraction"]
)
def test_metrics_of_a_text_are_those_of_its_export(tmp_path: Path, export: Path, name: str) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    printed(export, folder / "node0_cuda_gpu_trace.csv", "csv")

    results = [
        metrics()[name].run(View(job_of(one, tmp_path), ViewOptions(profile_mode="nsys")))
        for one in (folder, export.parent)
    ]

    assert results[0].status in ("ok", "partial")
    assert results[0].value == pytest.approx(results[1].value)


def test_the_lag_of_the_late_device_is_found(tmp_path: Path, export: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    printed(export, folder / "node0_cuda_gpu_trace.csv", "csv")

    result = metrics()["straggler_lag"].run(View(job_of(folder, tmp_path)))

    assert result.details["num_collectives"] == 30
    assert result.details["p50_lag_us"] == pytest.approx(5.0, abs=0.001)


def test_a_text_beside_its_recording_is_not_counted_again(tmp_path: Path, export: Path) -> None:
    printed(export, export.parent / "node0_cuda_gpu_trace.csv", "csv")

    job = job_of(export.parent, tmp_path)

    assert [rank.source.path for rank in job.ranks] == ["node0.sqlite"] * 2


def test_texts_of_nodes_are_ranks_of_one_job(tmp_path: Path, export: Path) -> None:
    folder = tmp_path / "nodes"
    folder.mkdir()
    for node in range(2):
        printed(export, folder / f"node{node}_cuda_gpu_trace.csv", "csv")

    job = job_of(folder, tmp_path)

    assert len(job.ranks) == 4


def test_cut_and_missing_numbers_are_noted(tmp_path: Path) -> None:
    text = tmp_path / "t.csv"
    text.write_text(
        "Start (us),Duration (us),CorrId,Device,Strm,Name\n"
        f"1000.1…,50.000,1,A (0),7,{REDUCE}\n"
        f"1…,50.000,2,A (0),7,{REDUCE}\n"
        f"2000.000,50.000,3,A (0),7,{REDUCE}\n",
        encoding="utf-8",
    )

    (rank,) = read_text_trace(text, shown="t.csv")

    assert np.diff(rank.group("gpu").start_ns).tolist() == [999_900]
    notes = {note.code: note for note in rank.notes}
    assert notes["text_rows_dropped"].count == 1
    assert notes["text_cut_starts"].count == 1


def test_labels_without_a_number_are_devices_of_their_own(tmp_path: Path) -> None:
    text = tmp_path / "t.csv"
    header = "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n"
    rows = "".join(f"{at},5,1,{name},7,k\n" for at, name in ((10, "beta"), (20, "alpha")))
    text.write_text(header + rows, encoding="utf-8")

    ranks = read_text_trace(text, shown="t.csv")

    assert [rank.devices[0].name for rank in ranks] == ["alpha", "beta"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Time (%),Total Time (ns),Instances,Name\n60.0,1500,3,a\n", "it has cuda_gpu_kern_sum"),
        ("Start (ns),Duration (ns),CorrId,GrdX,Name\n1,2,3,4,k\n", "no column Device"),
        (
            "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n,,1,,7,k\n",
            "no row of its cuda_gpu_trace has start, duration and device",
        ),
    ],
)
def test_a_refusal_names_what_the_text_lacks(tmp_path: Path, content: str, message: str) -> None:
    text = tmp_path / "report_cuda.csv"
    text.write_text(content, encoding="utf-8")

    with pytest.raises(TraceError, match=message):
        read_text_trace(text, shown="report_cuda.csv")
    result = metrics()["coll_call_num"].run(
        View(job_of(tmp_path, tmp_path), ViewOptions(profile_mode="nsys"))
    )

    assert result.status == "unavailable"
    assert result.reason != "mode_mismatch"
    assert message in result.reasons[0].message


LOCALES = {
    "C": ("", ".", 3),
    "en_US": (",", ".", 3),
    "en_IN": (",", ".", 2),
    "de_DE": (".", ",", 3),
    "fr_FR": ("\u202f", ",", 3),
    "de_CH": ("\u2019", ".", 3),
}
BEGINNINGS = (
    "Processing [x.sqlite] with [/o/2024.1.1/reports/cuda_gpu_sum.py](start=1:end=2)... ",
    " ** CUDA GPU Summary (Kernels/MemOps) (cuda_gpu_sum):",
    "Time (%),Total Time (ns),Instances,Category,Operation",
    " Time (%)  Total Time (us)  Instances   Operation ",
    " --------  ---------------  ---------  -----------",
    "     14.7      4.918.341,9       2312  k1         ",
    '50.0,"1,234",2,CUDA_KERNEL,"a, b"',
    "| Time (%) | Total Time (ns) | Instances |",
    "+----------+-----------------+-----------+",
    "[",
    '  {"Time (%)": 5.0, "Total Time (ns)": 1, "Name": "k"}',
    "]",
    "SKIPPED: x.sqlite does not contain CUDA trace data.",
    "Start (us)   Duration (us)  CorrId    Device     Name",
    " 3761321.62…       4528.869  7691…  A100 (1)  nccl",
    "",
)


def written(value: int, decimals: int, locale: str) -> str:
    """Return a number as nsys prints it under a locale."""
    group, mark, inner = LOCALES[locale]
    digits = f"{abs(value):0{decimals + 1}d}"
    integer, fraction = (digits[:-decimals], digits[-decimals:]) if decimals else (digits, "")
    parts = [integer[-3:]]
    rest = integer[:-3]
    while rest:
        parts.append(rest[-inner:])
        rest = rest[:-inner]
    sign = "-" if value < 0 else ""
    return sign + group.join(reversed(parts)) + (mark + fraction if decimals else "")


@given(
    st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=6),
    st.sampled_from([0, 1, 3, 4]),
    st.sampled_from(sorted(LOCALES)),
)
def test_numbers_of_a_known_column_are_parsed(
    values: list[int], decimals: int, locale: str
) -> None:
    cells = [written(value, decimals, locale) for value in values]

    found = parse_numbers(cells, decimals=(decimals,), place=lambda row: (row, 1), header="x")

    assert found is not None
    assert found.decimals == decimals
    assert found.mantissa.tolist() == values
    assert not found.state.any()


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    st.sampled_from([0, 1, 3]),
    st.sampled_from(sorted(LOCALES)),
)
def test_numbers_of_an_unknown_column_are_parsed_or_rejected(
    values: list[int], decimals: int, locale: str
) -> None:
    cells = [written(value, decimals, locale) for value in values]

    try:
        found = parse_numbers(cells, place=lambda row: (row, 1), header="x")
    except TraceError:
        return

    assert found is not None
    scale = 10 ** (decimals - found.decimals) if found.decimals <= decimals else 0
    assert (found.mantissa * scale == np.array(values)).all()


def read(text: str) -> StatsText | TraceError:
    try:
        return parse_stats_text(text)
    except TraceError as error:
        return error


@given(st.lists(st.one_of(st.sampled_from(BEGINNINGS), st.text(max_size=30)), max_size=12))
def test_any_order_of_lines_is_read_or_rejected(lines: list[str]) -> None:
    found = read("\n".join(lines))

    if isinstance(found, StatsText):
        for section in found.sections:
            assert bool(section.columns) != bool(section.absent)
            assert all(len(column) == len(section) for column in section.columns)


@given(st.data())
def test_damaged_line_is_read_or_rejected(data: st.DataObject) -> None:
    text = "\n".join(BEGINNINGS)
    place = data.draw(st.integers(0, len(text) - 1))
    size = data.draw(st.integers(0, 5))

    read(text[:place] + data.draw(st.text(max_size=4)) + text[place + size :])


UNESCAPED = re.sub(r"\\(.)", r"\1", sniff._NSYS_BANNER)
BANNERS = UNESCAPED.split("\n      | ")
HEAD = r'(?m)^[ \t|"]*(?:'
PLAIN = sniff._NSYS_HEADER.replace(sniff._GAP, " ").replace(sniff._UNIT, "")
HEADERS = re.sub(r"\(\?:[^()]*\)\??", "", PLAIN.removeprefix(HEAD).removesuffix(")")).split("|")


def test_all_alternatives_are_looked_at() -> None:
    assert len(BANNERS) == 10
    assert len(HEADERS) == 12


@pytest.mark.parametrize("banner", BANNERS)
def test_a_banner_has_one_of_its_words(banner: str) -> None:
    assert [word for word in sniff._BANNER_WORDS if word in banner]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_has_one_of_its_words(header: str) -> None:
    assert [word for word in sniff._HEADER_WORDS if word in header]


def test_a_trace_has_all_of_its_words() -> None:
    assert all(word in sniff._TRACE_HEADER for word in sniff._TRACE_WORDS)
    assert "|" not in re.sub(r"\(\?:[^()]*\)", "", sniff._TRACE_HEADER.replace(sniff._GAP, ""))[20:]


def test_a_text_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stats.txt"
    path.write_bytes(gzip.compress(b"x" * 99 + b"\n" + b"\n" * 3_000_000))
    monkeypatch.setenv("CCLTUI_TEXT_LIMIT_MB", "2")

    with pytest.raises(TraceError, match="longer than 2 MB; CCLTUI_TEXT_LIMIT_MB sets the limit"):
        read_stats_text(path)

    monkeypatch.setenv("CCLTUI_TEXT_LIMIT_MB", "4")
    assert not read_stats_text(path).sections
