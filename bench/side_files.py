"""Write a folder that fills the panes beside those of traces: texts of nsys, and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_CALLS: Final = 500
_KERNELS: Final = 90
_RUNS: Final = 12
_STEPS: Final = 40
_KERNEL: Final = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *)"
_SUM: Final = (
    "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),"
    "Category,Operation"
)


def write_side_files(folder: Path) -> None:
    """Write a printed trace of two devices, a summary of kernels, and runs of a few steps."""
    trace = ["Start (us),Duration (us),CorrId,GrdX,Device,Name"]
    for call in range(_CALLS):
        for device in range(2):
            start = 1000 * call + device * (call + 1)
            trace.append(f'{start}.000,100.000,{call},8,NVIDIA A100 ({device}),"{_KERNEL}"')
    (folder / "moe_cuda_gpu_trace.csv").write_text("\n".join([*trace, ""]))
    rows = [
        f"1.0,{900 - number}.000,40,10.0,10.0,0.000,20.000,1.0,CUDA_KERNEL,gemm_{number}"
        for number in range(_KERNELS)
    ]
    (folder / "moe_cuda_gpu_sum.csv").write_text("\n".join([_SUM, *rows, ""]))
    for run in range(_RUNS):
        _write_run(folder / f"run{run}", (40 + run) / 1000)


def _write_run(folder: Path, step_s: float) -> None:
    folder.mkdir()
    lines = [
        f'{{"step": {step}, "loss": 5.0, "step_time_sec": {step_s}, "tokens": 16384}}\n'
        for step in range(1, _STEPS + 1)
    ]
    (folder / "training_steps.jsonl").write_text("".join(lines))
    (folder / "training_metrics.json").write_text('{"world_size": 2, "wall_s": 2.5}')
