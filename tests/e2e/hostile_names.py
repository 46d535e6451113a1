"""A job, an export, a text and two runs with names that attack the output."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

from nsys_exports import Export
from runs_by_hand import BASELINE, COMMIT_A, document, put_run

from ccltui.demo import Spec, write_job

CONTROLS = (
    "\x1b[31m\x07\n\r\t\x08\x7f\x9b2J\u202e\u2066\u200b\u200d\u200e\u061c\u2060\ufeff\u2028\u2029"
)
NAME = f"=cmd(){CONTROLS}|<b>x`'\"&"
"""Begins a formula, ends a line and a table cell, opens a tag, steers a terminal."""

_BROKEN_TRACE = '{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}, {"ph'
_KERNEL = f"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t({NAME})"


def write_hostile_job(directory: Path) -> None:
    """Traces of four ranks whose operators, kernels, groups and hosts carry the name."""
    write_job(directory, Spec(tp=1, steps=3, layers=2, gpus_per_node=2, stragglers=()))
    for path in directory.glob("kineto_trace_*.json.gz"):
        found = json.loads(gzip.decompress(path.read_bytes()))
        found["host_name"] = f"{NAME}{found['host_name']}"
        for group in found["distributedInfo"].get("pg_config", []):
            group["pg_desc"] = f"{NAME}{group['pg_desc']}"
        for event in found["traceEvents"]:
            _rename(event)
        path.with_suffix("").write_text(json.dumps(found))
        path.unlink()
    card = directory / "workload_card.yaml"
    text = card.read_text()
    for value in ("synthetic-transformer", "synthetic\n", "bf16"):
        text = text.replace(f": {value.strip()}\n", f": {json.dumps(NAME)}\n")
    card.write_text(f"{text}{json.dumps(NAME)}: 1\n")
    (directory / f"{NAME}rank9.json").write_text(_BROKEN_TRACE)
    (directory / f"{NAME}.log").write_text("x\n")


def _rename(event: dict[str, Any]) -> None:
    arguments = event.get("args", {})
    if "Process Group Description" in arguments:
        arguments["Process Group Description"] = f"{NAME}{arguments['Process Group Description']}"
    if event.get("cat") in ("kernel", "cpu_op", "gpu_memcpy") and "Step" not in event["name"]:
        event["name"] = f"{NAME}{event['name']}"


def write_hostile_nsys(directory: Path) -> Path:
    """An export and a text of ``nsys stats``; the export."""
    directory.mkdir()
    export = Export(start_utc_ns=1_000)
    process = export.process(100)
    process.kernel(f"{NAME}(int)", 10, 40, launched=5)
    process.range(NAME, 0, 50)
    process.range(f":{NAME}", 1, 50, registered=True)
    process.os_call(NAME, 1, 3)
    rows = "".join(
        f'{start},{length},{number},8,"A100{CONTROLS.replace(chr(10), "").replace(chr(13), "")} '
        f'({number % 2})","{_csv(_KERNEL)}"\n'
        for number, (start, length) in enumerate(((10, 100), (70, 40), (200, 60), (210, 50)))
    )
    banner = "Processing [r.sqlite] with [/opt/nsight/2024.1.1/reports/cuda_gpu_trace.py]... \n"
    header = "Start (us),Duration (us),CorrId,GrdX,Device,Name\n"
    (directory / f"{NAME}_trace.txt").write_text(banner + header + rows, newline="")
    return export.write(directory / f"{NAME}.sqlite")


def _csv(text: str) -> str:
    return text.replace('"', '""').replace("\n", "").replace("\r", "")


def write_hostile_runs(directory: Path) -> tuple[Path, Path]:
    """Two runs of one harness."""
    found = document(BASELINE, COMMIT_A, optimizer=NAME, dataset_name=NAME)
    found["hardware"]["gpu_name"] = NAME
    other = document(BASELINE, f"{NAME}b")
    return put_run(directory / f"{NAME}a", found), put_run(directory / f"{NAME}b", other)


def unsafe(data: bytes) -> set[str]:
    """Characters of an output that act on a terminal or cannot be seen; a line feed may be."""
    text = data.decode()
    return {
        character
        for character in set(text) - {"\n"}
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    }


def formulas(cells: list[str]) -> set[str]:
    """Cells that a spreadsheet computes."""
    return {
        cell
        for cell in cells
        if re.match(r"[=+\-@\t\r]", cell) and not re.fullmatch(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", cell)
    }
