"""``ccltui seeds-layout``: write a folder with the paths that the seed documents name.

Readers of these documents type ``python main.py``, ``./scripts/get_NAME.sh`` or
``trace_collection/WORKLOAD/run.sh``: each of these paths runs here what ccltui has for it. Scripts
that compute metrics are written, those that record are links into ``sbatch/`` of a checkout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import ccltui
from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.parsers.errors import GrammarError
from ccltui.report.output import print_message, write_report
from ccltui.report.text_layout import table, text_bytes

_DESCRIPTION = """\
Write a folder in which the commands of the seed documents work as they are written there: main.py
and the scripts of the metrics, and links to the scripts of sbatch/ that record. Without DIR, list
the paths. Files that are there already are not changed."""
_EXECUTABLE: Final = 0o755

METRICS: Final = (
    *("coll_call_num", "throughput_tokens", "iter_time", "comm_comp_overlap", "pipeline_bubble"),
    *("traffic_distribution", "straggler_lag"),
)
"""Metrics that the documents call implemented, in their order."""

MODELS: Final = {"llama3": "llama*", "deepseek": "deepseek*", "qwen": "qwen*"}
"""Names of batch scripts, and the workloads that each takes."""

LINKS: Final = {
    "perlmutter": "perlmutter",
    "train.py": "fsdp_benchmark/train.py",
    "benchmark.py": "fsdp_benchmark/benchmark.py",
    "slurm_submit.sh": "fsdp_benchmark/slurm_submit.sh",
    "benchmark_only.sh": "fsdp_benchmark/benchmark_only.sh",
    "requirements.txt": "fsdp_benchmark/requirements.txt",
    "src/gpt2.py": "gpt2_deepspeed/gpt2.py",
    "src/deepspeed_config.json": "gpt2_deepspeed/deepspeed_config.json",
    "scripts/slurm/run_2node_8gpu.sbatch": "gpt2_deepspeed/run_2node_8gpu.sbatch",
    "scripts/profiling/parse_nsys_stats.py": "gpt2_deepspeed/scripts/parse_nsys_stats.py",
    "scripts/1_download_data.py": "gpt2_deepspeed/scripts/download_data.py",
    "scripts/preprocess_small.py": "gpt2_deepspeed/scripts/preprocess_small.py",
}
"""Paths of the documents, and the file or folder below ``sbatch/`` that each leads to."""

FOLDERS: Final = ("trace_collection", "logs", "checkpoints", "benchmarks", "artifacts")
"""Folders that traces and results go to."""

PATHS: Final = (
    ("tools/main.py", "`ccl-metrics`, with the metrics of `_METRIC_MODULES` beside it"),
    ("tools/NAME/NAME.py", "`metric_cal(directory, profile_mode)` of each of the seven metrics"),
    (
        "scripts/get_NAME.sh [DIR…]",
        "one metric of folders; without any, of all in trace_collection",
    ),
    (
        "scripts/run_metrics_llama3.sh, …_deepseek.sh, …_qwen.sh, run_all_metrics.sh",
        "all metrics of the workloads of a model, or of all: results/WORKLOAD.json, and a table",
    ),
    ("tools/scripts/", "link to `scripts/`: both of these are run from `tools/`"),
    ("trace_collection/WORKLOAD/run.sh", "link to the workload in `sbatch/workloads`"),
    ("perlmutter/", "link to `sbatch/perlmutter`"),
    (
        "perlmutter/run_llama3_8b_tp.sbatch",
        "the same job as trace_collection/llama3.1-8b-torchtitan-tp-perlmutter-16/run.sbatch",
    ),
    ("slurm_submit.sh, benchmark_only.sh, train.py, benchmark.py", "links to `fsdp_benchmark`"),
    ("src/, scripts/slurm/, scripts/profiling/, scripts/*.py", "links to `gpt2_deepspeed`"),
    ("logs/, checkpoints/, benchmarks/, artifacts/", "empty folders for what jobs leave"),
)
"""Paths of the documents and what is there, for people."""

_SCRIPT: Final = """\
#!/usr/bin/env bash
# {purpose}
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname -- "${{BASH_SOURCE[0]}}")/common.sh"
{call} "$@"
"""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui seeds-layout``."""
    result = args.of_verb("seeds-layout", _DESCRIPTION)
    result.add_argument("directory", nargs="?", metavar="DIR", help="folder to write; may exist")
    result.add_argument(
        "--sbatch",
        metavar="PATH",
        help="folder sbatch/ of a checkout; default: the one beside this installation",
    )
    result.add_argument(
        "--copy",
        action="store_true",
        help="copy sbatch/ into DIR, so that settings are changed there and not in the checkout",
    )
    return args.completed(result)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui seeds-layout`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    if options.directory is None:
        rows = [[path, what.replace("`", "")] for path, what in PATHS]
        write_report(text_bytes(table(["path", "what is there"], rows)), None)
        return exit_codes.OK
    sbatch = _sbatch(options.sbatch)
    if not options.directory:
        raise GrammarError("DIR is empty: name a folder, . for this one")
    root = Path(options.directory).absolute()
    if options.copy and sbatch is not None:
        _refuse_copy(root, sbatch)
    kept = write_tools(root)
    if sbatch is None:
        print_message(
            "the scripts that record are not beside this installation: --sbatch PATH names the "
            "folder sbatch/ of a checkout"
        )
    else:
        kept += write_links(root, sbatch, copy=options.copy)
    if kept:
        print_message(f"not changed, though it is not what would be written now: {', '.join(kept)}")
    write_report(f"{root}\n".encode(), None)
    return exit_codes.OK


def _sbatch(stated: str | None) -> Path | None:
    """Return the folder of the scripts that record, None where there is none beside ccltui."""
    if stated is not None:
        found = Path(stated).absolute()
        if not (found / "lib" / "submit.sh").is_file():
            raise GrammarError(
                f"--sbatch {stated}: it has no lib/submit.sh: not the sbatch/ of ccltui"
            )
        return found
    beside = Path(ccltui.__file__).resolve().parents[1] / "sbatch"
    return beside if (beside / "lib" / "submit.sh").is_file() else None


def _refuse_copy(root: Path, sbatch: Path) -> None:
    """Raise GrammarError where a copy would not be one, or would contain itself."""
    if (root / "sbatch").is_symlink():
        raise GrammarError(
            f"--copy: {root / 'sbatch'} is a link, through which settings are changed in the "
            "checkout: remove it, then copy"
        )
    if root.resolve().is_relative_to(sbatch.resolve()):
        raise GrammarError(f"--copy: {root} is in {sbatch}: name a folder outside of it")


def write_tools(root: Path) -> list[str]:
    """Write the scripts that compute metrics; return existing files that differ and are kept."""
    kept = [path for path, text in _tools() if not _write(root / path, text)]
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    if not _link(root / "tools" / "scripts", Path("..") / "scripts"):
        kept.append("tools/scripts")
    return kept


def _tools() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file that is written."""
    python = sys.executable
    modules = "\n".join(f'    "{name}": "{name}.{name}",' for name in METRICS)
    main = _template("main.txt").replace("@PYTHON@", repr(python)).replace("@MODULES@", modules)
    yield "tools/main.py", main.replace("@NAMES@", repr(METRICS))
    for name in METRICS:
        yield f"tools/{name}/__init__.py", f"from .{name} import metric_cal\n"
        yield (
            f"tools/{name}/{name}.py",
            f'"""{name} of ccltui."""\n\nfrom ccltui.metrics.registry import find\n\n'
            f'metric_cal = find("{name}").document_of\n',
        )
    yield "scripts/common.sh", _template("common.sh").replace("@PYTHON@", shlex.quote(python))
    for name in METRICS:
        what = f"Print {name} of trace directories: get_{name}.sh [DIR...]; default: all there are."
        call = f"metric_of_each {name}"
        yield f"scripts/get_{name}.sh", _SCRIPT.format(purpose=what, call=call)
    for model, pattern in MODELS.items():
        what = f"Compute all metrics of workloads named {pattern}: run_metrics_{model}.sh [OUTPUT]."
        call = f"run_metrics '{pattern}'"
        yield f"scripts/run_metrics_{model}.sh", _SCRIPT.format(purpose=what, call=call)
    what = "Compute all metrics of all workloads: run_all_metrics.sh [OUTPUT]."
    yield "scripts/run_all_metrics.sh", _SCRIPT.format(purpose=what, call="run_metrics '*'")


def _template(name: str) -> str:
    return files("ccltui.commands").joinpath("seeds_layout", name).read_text("utf-8")


def write_links(root: Path, sbatch: Path, *, copy: bool) -> list[str]:
    """Link the paths of the documents into ``sbatch/`` of a checkout, or into a copy of it.

    Returns existing paths that are other files or links, and are kept.
    """
    own = root / "sbatch"
    if copy and not own.exists():
        shutil.copytree(sbatch, own, symlinks=True)
    links = {"sbatch": sbatch} if own.is_symlink() or not own.is_dir() else {}
    for path, target in LINKS.items():
        links[path] = Path(*[".."] * path.count("/"), "sbatch", target)
    for folder in sorted((sbatch / "workloads").iterdir()):
        if (folder / "run.sh").is_file():
            workload = Path("..") / "sbatch" / "workloads" / folder.name
            links[f"trace_collection/{folder.name}"] = workload
    return [path for path, target in links.items() if not _link(root / path, target)]


def _link(path: Path, target: Path) -> bool:
    """Link a path; return False where another file or link is there, which is kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(path):
        path.symlink_to(target)
    return path.is_symlink() and path.readlink() == target


def _write(path: Path, text: str) -> bool:
    """Write a file; return False where another file is there, which is kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        return path.is_file() and path.read_bytes() == text.encode()
    path.write_text(text, encoding="utf-8")
    if text.startswith("#!"):
        path.chmod(_EXECUTABLE)
    return True
