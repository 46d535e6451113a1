"""What a text that is no JSON is: nsys stats output, YAML, marks of finished runs, logs."""

from __future__ import annotations

import codecs
import re
from typing import Final

from ccltui.parsers.discovery.sniff.run_text_kinds import classify_run_text
from ccltui.parsers.found_files import Kind

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # escapes and form feeds occur in logs

_NSYS_BANNER = re.compile(
    r"""^[ \t]*(?:[$>][ ])?(?:
        Processing\ \[[^\]\n]+\]\ with\ \[
      | Exporting\ \[[^\]\n]+\.py\b
      | \[\d+/\d+\]\ Executing\ '\w+'\ stats\ report
      | \*\*\ .{1,200}\(\w+\):
      | Generating\ SQLite\ file\ .
      | NOTICE:\ Existing\ SQLite\ export\ found
      | Generating\ \w[\w ]*\ Statistics\.\.\.
      | \w[\w ]*\ Statistics\ \((?:nanoseconds|KiB)\)
      | ERROR:\ Report\ '[^'\n]*'\ could\ not\ be\ found
      | SKIPPED:\ \S.*\ (?:does\ not\ contain|could\ not\ be\ found)
    )""",
    re.MULTILINE | re.VERBOSE,
)
_UNIT = r"(?: ?\([^)\n]{1,12}\))?"
_GAP = r'"?(?:[ \t]{2,}|[ ]*[|,;\t][ ]*)"?'
# Header lines of the reports: console columns, drawn tables, csv, tsv.
_NSYS_HEADER = re.compile(
    r'^[ \t|"]*(?:'
    + "|".join(
        _GAP.join(columns)
        for columns in (
            (
                rf"Time{_UNIT}",
                rf"Total(?: Time)?{_UNIT}",
                r"(?:Instances|Num Calls|Calls|Count|Op)",
            ),
            (rf"Time{_UNIT}", rf"Total(?: Time)?{_UNIT}", r"Operations"),
            (rf"Total{_UNIT}", r"(?:Count|Operations)", rf"(?:Avg|Average){_UNIT}"),
            (rf"Start{_UNIT}", rf"Duration{_UNIT}", r"(?:CorrId|Name)"),
            (rf"Start{_UNIT}", rf"End{_UNIT}", rf"Duration{_UNIT}"),
            (r"Range", r"Style", rf"Total Proj Time{_UNIT}"),
            (r"Name", rf"Projected Start{_UNIT}", rf"Projected Duration{_UNIT}"),
            (r"NVTX Range", r"Style", r"PID"),
            (rf"API Start{_UNIT}", rf"API Dur{_UNIT}", rf"Queue Start{_UNIT}"),
            (r"PID", r"TID", r"DevId"),
        )
    )
    + ")",
    re.MULTILINE,
)

_CARD_KEY = re.compile(r"^(?:\{\s*)?[\"']?(?:workload|metric_source)[\"']?\s*:", re.MULTILINE)
_CLUSTER_KEYS = tuple(re.compile(rf"^{key}\s*:", re.MULTILINE) for key in ("hostname", "results"))
_LOG_SUFFIXES = (".log", ".out", ".err", ".txt")


RECIPES: Final = ("Name,Time,Total Time,Instances,Avg,", "Text,Count,Mean,Std,")
"""How the csv of ``cuda_gpu_kern_sum`` of `nsys recipe` begins, its like, and ``nccl_sum``."""


def decode(data: bytes) -> str | None:
    """The text, or None when these bytes are no text: NUL or many control characters."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data or len(_CONTROL.findall(data)) * 20 > len(data):
        return None
    text = data.decode("utf-8", "replace")
    return None if text.count("�") * 4 > len(text) else text.removeprefix("\ufeff")


def classify_text(text: str, name: str) -> tuple[Kind, str | None]:
    """Kind of the beginning of a text, and why it is of no use (None when it is)."""
    start = text.lstrip()[:200].lower()
    if not start:
        return "unknown", "nothing but blanks"
    if start.startswith(("<!doctype html", "<html")):
        return "unknown", "an HTML page, perhaps a failed download"
    if start.startswith("version https://git-lfs.github.com/spec/"):
        return "unknown", "a Git LFS pointer: run `git lfs pull` to get the file itself"
    if text.startswith(RECIPES) or _NSYS_BANNER.search(text) or _NSYS_HEADER.search(text):
        return "nsys_text", None
    lower = name.lower()
    if lower.endswith((".yaml", ".yml")):
        return _classify_yaml(text, lower)
    of_run = classify_run_text(text, lower)
    if of_run is not None:
        return of_run, None
    if lower.endswith(_LOG_SUFFIXES):
        return "log", None
    return "unknown", "text in no format known here"


def _classify_yaml(text: str, lower_name: str) -> tuple[Kind, str | None]:
    if _CARD_KEY.search(text) or lower_name in ("workload_card.yaml", "workload_card.yml"):
        return "workload_card", None
    if all(key.search(text) for key in _CLUSTER_KEYS):
        return "cluster_benchmark", None
    return "unknown", "YAML, but no workload card: neither `workload:` nor `metric_source:`"


def link_target(data: bytes) -> str | None:
    """The path in a symlink that was stored as text (by a version control system, say)."""
    if not 0 < len(data) <= 4096 or b"\n" in data.rstrip(b"\r\n") or b"\0" in data:
        return None
    target = data.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    if target != target.strip() or target.startswith("/") or not _NAME_LIKE.fullmatch(target):
        return None
    return target


_NAME_LIKE = re.compile(r"[^\s{}\[\]<>:\"|][^{}\[\]<>:\"|\t]*\.[A-Za-z0-9_.]{1,20}")
