"""Reports: a folder of texts of nsys opens with its studies and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from explorers import Start, appears, listed, pane, pane_text
from nsys_exports import Export
from textual.pilot import Pilot

from ccltui.tui.app import Explorer
from ccltui.tui.engine.loader import run_load
from ccltui.tui.export import command_line
from ccltui.tui.panes import text_page
from ccltui.tui.state.pane import panes_with_tabs
from ccltui.tui.state.pane_states import OVERVIEW, REPORTS

SIZES = [(80, 24), (120, 40), (200, 50)]
KERNEL = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *, unsigned long, ncclWork *)"
Compare = Callable[..., bool]
Open = Callable[[Path], Explorer]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty exchanges of two devices, of which the second joins 1 to 20 us late; the summary."""
    root = tmp_path / "study"
    root.mkdir()
    rows, total = [], 0
    for index in range(20):
        begin, late = 1_000 * index, index + 1
        for device, (start, length) in enumerate(((begin, 100 + late), (begin + late, 100))):
            rows.append(f"{start}.000,{length}.000,1,8,NVIDIA A100 ({device}),{KERNEL!r}")
            total += length
    lines = "\n".join(row.replace("'", '"') for row in rows)
    (root / "moe_cuda_gpu_trace.csv").write_text(
        f"Start (us),Duration (us),CorrId,GrdX,Device,Name\n{lines}\n"
    )
    (root / "moe_cuda_gpu_sum.csv").write_text(
        "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),"
        "Category,Operation\n"
        f'75.0,{total}.000,40,0.0,0.0,0.000,120.000,0.0,CUDA_KERNEL,"{KERNEL}"\n'
        "24.5,1370.000,20,0.0,0.0,0.000,90.000,0.0,CUDA_KERNEL,ampere_sgemm_128x64\n"
        "0.5,30.000,2,0.0,0.0,0.000,20.000,0.0,MEMORY_OPER,[CUDA memset]\n"
    )
    return root


@pytest.fixture
def opened(start: Start) -> Open:
    """Explorers of real directories."""
    return lambda path: start(run_load, "256", str(path))


async def test_a_folder_of_texts_has_its_study_beside_the_ranks(opened: Open, folder: Path) -> None:
    app = opened(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("9")
        await listed(pilot)

        assert pane(app) == REPORTS
        lines = [line.text for line in text_page.REPORTS.rows(app.scene) or ()]
        (delay,) = [line for line in lines if line.startswith("delay ")]
        assert delay.split() == ["delay", "10.500", "10.500", "19.000", "20.000"]
        assert any("20 of 20 exchanges have a kernel on each of 2 devices" in x for x in lines)
        assert any("sums equal those of moe_cuda_gpu_sum.csv" in line for line in lines)
        assert any(line.split()[:2] == ["75.0", "4,210.000"] for line in lines)
        assert any(line.endswith("below 1 %") for line in lines)
        assert "CUDA GPU Trace: moe_cuda_gpu_trace.csv" in lines
        assert "100 %" in pane_text(app)  # the distribution
        assert command_line(app.scene, app.options) == f"ccltui stats {folder} --alltoall"


async def test_reports_stand_beside_the_panes_of_traces(opened: Open, folder: Path) -> None:
    export = Export()
    export.process(100).kernel("gemm", 50, 90)
    export.write(folder / "a.sqlite")
    app = opened(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        assert pane(app) == OVERVIEW
        await pilot.press("9")
        await listed(pilot)

        assert pane(app) == REPORTS
        assert "Delays of all-to-all" in pane_text(app)


async def test_a_cut_line_is_whole_below(opened: Open, folder: Path) -> None:
    app = opened(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await listed(pilot)
        await pilot.press("9")
        await listed(pilot)
        await pilot.press("G", "k", "k", "k")
        await pilot.pause()

        text = pane_text(app).splitlines()
        (chosen,) = [line for line in text if line.startswith("▶")]
        assert chosen.rstrip().endswith("…")
        assert "ncclWork *)" in "\n".join(text[-3:])


async def test_a_folder_without_anything_of_nsys_has_no_such_pane(
    opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    app = opened(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("9")

        assert REPORTS not in [pane.name for pane in panes_with_tabs(app.scene)]
        assert app.scene.notice == text_page.NO_REPORTS


async def test_a_broken_file_is_one_line(opened: Open, folder: Path) -> None:
    text = (folder / "moe_cuda_gpu_sum.csv").read_text()
    (folder / "broken_cuda_gpu_sum.csv").write_text(text.replace("1370.000", "many"))
    app = opened(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("9")
        await listed(pilot)

        problems = [x.text for x in text_page.REPORTS.rows(app.scene) or () if x.role == "problem"]
        assert any("broken_cuda_gpu_sum.csv" in text for text in problems)


def after(*keys: str) -> Callable[[Pilot[int]], object]:
    """Wait for the lines, type, wait."""

    async def run(pilot: Pilot[int]) -> None:
        await listed(pilot)
        await pilot.press(*keys)
        await listed(pilot)

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_picture_of_a_study(
    snap_compare: Compare, opened: Open, folder: Path, size: tuple[int, int]
) -> None:
    assert snap_compare(opened(folder), terminal_size=size, run_before=after("9", "j", "j"))


async def test_tables_without_times_open_on_what_they_show(opened: Open, tmp_path: Path) -> None:
    """Reports has the tables; the finding on them is the answer, as for any recording."""
    (tmp_path / "stats.txt").write_text(
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances  Name\n"
        " --------  ---------------  ---------  ----\n"
        "     50.0             5000          2  gemm\n"
    )
    app = opened(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)

        assert pane(app) == OVERVIEW
        assert await appears(pilot, "gemm takes 50.0 %")
