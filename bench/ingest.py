"""How fast and how lean traces become columns, against plain JSON decoders, in one run.

    python -m bench.ingest [--events N] [--repeat N] [FILE]

Every method reads the same file in a process of its own; the table gives CPU seconds, the
peak resident size, and both as ratios to ``json.load``. Wall time is not shown: on a shared
machine it says little. The columns also have to be right, so each reader proves that it saw
every event.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

_METHODS = {
    "json.load": "import json; d = json.load(open(path)); n = len(d['traceEvents'])",
    "orjson.loads": (
        "import orjson; d = orjson.loads(open(path, 'rb').read()); n = len(d['traceEvents'])"
    ),
    "msgspec whole": (
        "import msgspec; d = msgspec.json.decode(open(path, 'rb').read()); "
        "n = len(d['traceEvents'])"
    ),
    "ccltui columns": (
        "from pathlib import Path; from parsers.kineto import read_kineto; "
        "t = read_kineto(Path(path)); n = sum(t.counts.values())"
    ),
    "ccltui store": (
        "from pathlib import Path; from parsers.store import Store; "
        "t = Store(Path(path).parent / 'store').load('bench'); n = sum(t.counts.values())"
    ),
}
_MEASURE = """
import resource, sys, json
path = sys.argv[1]
{body}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, n]))
"""


def main() -> int:
    """Measure every method and print the table."""
    parser = argparse.ArgumentParser(prog="bench.ingest", description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="a plain .json trace; default: made")
    parser.add_argument("--events", type=int, default=300_000, help="events of the made trace")
    parser.add_argument("--repeat", type=int, default=3, help="runs a method; the best counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or _made(Path(folder) / "trace.json", options.events)
        _fill_store(path, Path(folder) / "store")
        size = path.stat().st_size
        link = Path(folder) / "link.json"
        link.symlink_to(path.resolve())
        rows = {name: _best(body, link, options.repeat) for name, body in _METHODS.items()}
    counts = {n for _, _, n in rows.values()}
    if len(counts) != 1:
        sys.stderr.write(f"bench: the methods disagree on the number of events: {counts}\n")
        return 1
    _print(rows, size)
    return 0


def _best(body: str, path: Path, repeat: int) -> tuple[float, float, int]:
    runs = []
    for _ in range(repeat):
        command = [sys.executable, "-c", _MEASURE.format(body=body), str(path)]
        cpu, peak, count = json.loads(subprocess.check_output(command))
        runs.append((cpu, peak, count))
    return min(runs)


def _made(path: Path, events: int) -> Path:
    """A trace in the profiler's indentation: operators, launches, kernels, flows."""
    with path.open("w") as file:
        file.write('{\n  "schemaVersion": 1,\n  "traceEvents": [\n')
        for index in range(events // 4):
            time = 4389490124076.093 + index * 12.5
            file.write(_FOUR_EVENTS.format(i=index, t=time))
        file.write('  {"ph": "M", "name": "process_name", "pid": 0, "ts": 0, "args": {}}\n  ],\n')
        file.write('  "distributedInfo": {"rank": 0, "world_size": 1}\n}\n')
    return path


_FOUR_EVENTS = """  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 77, "tid": 77,
    "ts": {t:.3f}, "dur": 8.125,
    "args": {{
      "External id": {i},"Record function id": 0, "Ev Idx": {i}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 77, "tid": 77,
    "ts": {t:.3f}, "dur": 3.250,
    "args": {{
      "External id": {i}, "cbid": 211, "correlation": {i}
    }}
  }},
  {{
    "ph": "s", "id": {i}, "pid": 77, "tid": 77, "ts": {t:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm_bf16bf16_bf16f32_tn_n", "pid": 0, "tid": 7,
    "ts": {t:.3f}, "dur": 9.001,
    "args": {{
      "External id": {i}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {i},
      "registers per thread": 168, "shared memory": 213888,
      "blocks per SM": 1.0, "warps per SM": 12.0,
      "grid": [132, 1, 1], "block": [384, 1, 1], "est. achieved occupancy %": 19
    }}
  }},
"""


def _fill_store(path: Path, directory: Path) -> None:
    from parsers.kineto import read_kineto  # noqa: PLC0415
    from parsers.store import Store  # noqa: PLC0415

    Store(directory).save("bench", read_kineto(path))


def _print(rows: dict[str, tuple[float, float, int]], size: int) -> None:
    base_cpu, base_peak, count = rows["json.load"]
    print(f"{count:,} events, {size / 1e6:.1f} MB of text")
    print(f"{'':16} {'CPU s':>7} {'MB/CPU-s':>9} {'speed-up':>9} {'peak MiB':>9} {'of json':>8}")
    for name, (cpu, peak, _) in rows.items():
        print(
            f"{name:16} {cpu:7.2f} {size / 1e6 / cpu:9.0f} {base_cpu / cpu:8.1f}x"
            f" {peak:9.0f} {peak / base_peak:7.2f}x"
        )


if __name__ == "__main__":
    sys.exit(main())
