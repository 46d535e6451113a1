"""Every pane, with its lists filled, draws in any number of cells: while a screen changes its size
a pane may get one column."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from explorers import typed
from msgspec.structs import replace
from runs_by_hand import pair

from bench.inspector_logs import LogSpec, write_inspector_logs
from ccltui.demo import Spec, write_job
from ccltui.demo.hung_job import write_hung
from ccltui.draw.planes import Planes
from ccltui.tui.app import Explorer
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.panes import PANES, collective_drawer
from ccltui.tui.state.pane import gutter, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.wanted_queries import launch_query

pytestmark = pytest.mark.long

ODD = (
    *((height, width) for height in (1, 2, 3, 40, 200) for width in (1, 2, 13, 29, 30, 31, 200)),
    *((height, width) for height in (17, 18, 30, 31) for width in (69, 70, 79, 122, 161)),
)
SIZES = (*((height, width) for height in range(1, 13) for width in range(1, 13)), *ODD)
VISITS = {
    "1": ("j", "o"),
    "2": ("]", "l", "enter"),
    "3": ("j", "U", *"llllllllllll", "u", "v"),
    "4": ("j", "enter"),
    "5": ("j", "enter"),
    "6": ("j", "enter"),
    "7": ("j", "enter"),
    "8": ("j", "enter"),
    "9": ("j", "enter"),
    "asterisk": ("j", "enter", "R"),
    "percent_sign": ("j", "enter"),
    "dollar_sign": ("j", "enter"),
    "circumflex_accent": ("j", "l", "+", "enter"),
    "W": ("j", "enter"),
    "M": ("j", "enter"),
}
"""Keys that open the panes, and what is pressed there."""


BENCHMARK = """\
hostname: worker-3
results:
  GPU 0:
    Memory bandwidth: 3960.35 GB/s
"""
TABLE = """\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,3000,3,1000.0,1000.0,900,1100,80.0,ampere_sgemm_128x64
25.0,1000,1,1000.0,1000.0,1000,1000,0.0,elementwise_kernel
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with something for every pane: beside traces runs, benchmarks, tables, logs, dumps."""
    folder = tmp_path_factory.mktemp("job")
    write_job(
        folder, Spec(tp=2, pp=1, dp_shard=2, gpus_per_node=2, layers=2, steps=3, stragglers=())
    )
    pair(folder)
    (folder / "benchmark_1.yaml").write_text(BENCHMARK)
    (folder / "moe_cuda_gpu_kern_sum.csv").write_text(TABLE)
    write_inspector_logs(folder / "inspector", LogSpec(ranks=24, hours=0.1))
    write_hung(folder / "dumps", seed=1, fault="late", answer=folder / "answer.json")
    return folder


def sized(scene: Scene, height: int, width: int) -> Scene:
    """Return the scene as the display fits it to a pane of that size."""
    cells, state = max(width - gutter(scene), 1), scene.state
    return scene.with_state(
        replace(
            state,
            time=state.time.resized(cells),
            columns=state.columns.resized(cells),
            rows=max(height - 1, 1),
        )
    )


def failures(
    paint: Callable[[Scene, int, int], Planes],
    name: str,
    scene: Scene,
    sizes: Sequence[tuple[int, int]],
) -> list[str]:
    """Return where a picture cannot be drawn, or has another size."""
    wrong = []
    for number, (height, width) in enumerate(sizes):
        # Also as it was fitted to another size: a widget may be drawn before the next fit.
        for one in (sized(scene, height, width), *([scene] if number % 8 == 0 else [])):
            try:
                planes = paint(one, height, width)
            except Exception:
                last = traceback.format_exc().splitlines()[-3:]
                wrong.append(f"{name} {height}x{width}: {' '.join(last)}")
            else:
                if (planes.height, planes.width) != (height, width):
                    wrong.append(f"{name} {height}x{width}: {planes.height}x{planes.width}")
    return wrong


async def test_every_pane_at_every_size(traces: Path, tmp_path: Path, settle: object) -> None:
    app = Explorer(str(traces), ExplorerOptions(color="256", cache_dir=tmp_path))
    scenes: list[Scene] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)  # type: ignore[operator]
        for key, then in VISITS.items():
            for stroke in (key, *then):
                await typed(pilot, stroke)
                scenes.append(app.scene)
            await typed(pilot, "escape")
        for width, height in ((1, 1), (200, 1), (1, 40), (70, 18), (161, 18)):
            await pilot.resize_terminal(width, height)
            for key in ("3", "question_mark", "escape", "colon", "escape", "2", "slash", "escape"):
                await pilot.press(key)
    assert {scene.state.pane for scene in scenes} == {pane.name for pane in PANES}
    assert any(scene.answers.to(launch_query(scene)) is not None for scene in scenes)
    wrong: list[str] = []
    chance = random.Random(1)
    last = {scene.state.pane: scene for scene in scenes}
    for scene in scenes:
        some = SIZES if last[scene.state.pane] is scene else chance.sample(SIZES, 12)
        wrong += failures(pane_in_view(scene).paint, scene.state.pane, scene, some)
        wrong += failures(collective_drawer.paint, "drawer", scene, chance.sample(SIZES, 12))
    assert not wrong, "\n".join(sorted(set(wrong))[:40])
