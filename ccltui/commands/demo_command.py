"""``ccltui demo``: write a synthetic job with known metrics, and open it."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands import explore
from ccltui.commands.loading import LoadOptions, add_functions
from ccltui.config import read_config
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.numbers import time_text
from ccltui.report.output import print_message, write_report
from ccltui.report.progress import print_written
from ccltui.report.text_layout import text_bytes

FOLDER = "ccltui-demo"
FAMILIES = ("dp", "tp", "pp", "fsdp", "moe")
FAULTS = (
    "any",
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_microbatches",
    "uneven_experts",
    "slow_pair",
    "slow_group",
    "garbage_collection",
    "data_loading",
    "checkpoint",
    "launch_bound",
    "allocation",
    "synchronisation",
    "random",
    "slow_network",
    "alternating",
)
HANGS = (
    *("any", "late", "crashed", "lost_file", "operation", "size", "type", "order", "left_out"),
    *("network", "none", "two_late", "slow"),
)
CONDITIONS = ("clean", "damaged", "null", "two")
LEVELS = ("full", "no_groups", "names", "no_host", "kernels")
SMALL_RANKS = 32
"""Ranks up to which a job is drawn among all layouts and simulated rank by rank."""
_DESCRIPTION = """\
Write the traces of a synthetic job into DIR (default: a folder ccltui-demo in your cache
directory) and open them: 8 ranks on two hosts, a straggler, a clock that is 5 ms off."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui demo``."""
    result = args.of_verb("demo", _DESCRIPTION)
    result.add_argument(
        "directory", nargs="?", type=Path, metavar="DIR", help="directory to write to"
    )
    result.add_argument("--no-open", action="store_true", help="write the traces and exit")
    result.add_argument(
        "--seed", type=args.grammar(args.natural), metavar="N", help="seed of the random variation"
    )
    planted = result.add_argument_group(
        "another job",
        "With any of these, a job is drawn from the seed instead; what is planted in it is "
        "written beside DIR, to DIR.answer.json.",
    )
    planted.add_argument(
        "--fault",
        choices=FAULTS,
        metavar="KIND",
        help=f"what makes it slow; any: drawn; otherwise one of {', '.join(FAULTS[1:])}",
    )
    planted.add_argument("--family", choices=FAMILIES, help="kind of parallelism")
    planted.add_argument(
        "--condition",
        choices=CONDITIONS,
        help="clean: one fault; damaged: incomplete files too; null: no fault; two: two faults",
    )
    planted.add_argument("--level", choices=LEVELS, help="what the files record of collectives")
    planted.add_argument(
        "--varied",
        action="store_const",
        const=True,
        help="draw less usual programs and recorders too: CUDA graphs, rings, rounded times",
    )
    planted.add_argument(
        "--ranks",
        type=args.grammar(args.natural),
        metavar="N",
        help=f"number of ranks; above {SMALL_RANKS} the files are written by --jobs processes",
    )
    planted.add_argument(
        "--rank-size",
        type=args.grammar(_megabytes),
        metavar="MB",
        help="size of the file of a rank, in 1e6 bytes, of a job of many ranks; default: 2",
    )
    result.add_argument(
        "--hang",
        nargs="?",
        const="any",
        choices=HANGS,
        metavar="KIND",
        help="write dumps of flight recorders of a job that hangs instead of traces, and what is "
        f"wrong beside DIR; KIND is one of {', '.join(HANGS)}",
    )
    result.add_argument(
        "--all-records",
        action="store_true",
        help="with --hang: also reports of RAS, records of NCCL Inspector, the log of the "
        "watchdogs and traces of steps before, of which some are missing, as of a real job",
    )
    return args.completed(result, add_functions, explore.add_arguments, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui demo`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    if options.keys:
        return explore.print_keys(read_config(options.config))
    if options.hang is not None:
        directory = write_hung_demo(options)
    elif options.rank_size is not None or (options.ranks or 0) > SMALL_RANKS:
        directory = write_large_demo(options)
    elif any(getattr(options, name) is not None for name in _CHOICES):
        directory = write_planted_demo(options)
    else:
        directory = write_demo(options.directory, options.seed)
    write_report(text_bytes([str(directory)]), None)
    if options.no_open:
        return exit_codes.OK
    if options.serve is not None:
        return explore.serve(options, explorer_arguments(directory, options))
    if not explore.has_terminal():
        print_message(f"{explore.no_terminal()}; without one: ccltui explain {directory}")
        return exit_codes.OK
    return explore.run(options, _loading(directory, options), ViewOptions())


def write_demo(directory: Path | None, seed: int | None) -> Path:
    """Write the demo job and return its folder.

    Args:
        directory: Target; None: beside the column cache, else a temporary folder.
        seed: Seed of the random variation; None: that of the default job.

    Raises:
        GrammarError: The folder contains anything else than an earlier demo.
        OSError: Nothing can be written.
    """
    from ccltui.demo import DEMO, write_job  # noqa: PLC0415

    target = _default_directory() if directory is None else directory
    try:
        write_job(target, DEMO if seed is None else replace(DEMO, seed=seed))
    except FileExistsError as error:
        raise GrammarError(error.strerror or str(error)) from None
    return target


_CHOICES = ("fault", "family", "condition", "level", "ranks", "varied")


def write_planted_demo(options: argparse.Namespace) -> Path:
    """Write a job drawn from the seed, with its answer beside it, and return its folder.

    Raises:
        GrammarError: No job has what is asked for, or the folder contains other files.
        OSError: Nothing can be written.
    """
    from ccltui.demo.planted import random_spec, write_planted  # noqa: PLC0415

    target = options.directory or _default_directory(f"{FOLDER}-planted")
    fault = None if options.fault == "any" else options.fault
    try:
        spec = random_spec(
            options.seed or 0,
            family=options.family,
            fault=fault,
            condition=options.condition,
            level=options.level,
            ranks=options.ranks,
            varied=bool(options.varied),
        )
        write_planted(target, spec, answer=target.with_name(f"{target.name}.answer.json"))
    except (FileExistsError, ValueError) as error:
        raise GrammarError(str(error)) from None
    return target


def write_hung_demo(options: argparse.Namespace) -> Path:
    """Write dumps of a job that hangs, with its answer beside it, and return its folder.

    Raises:
        GrammarError: The folder contains other files.
        OSError: Nothing can be written.
    """
    from ccltui.demo.hung_job import write_hung  # noqa: PLC0415
    from ccltui.demo.hung_records import write_hung_records  # noqa: PLC0415

    target = options.directory or _default_directory(f"{FOLDER}-hung")
    answer = target.with_name(f"{target.name}.answer.json")
    fault = None if options.hang == "any" else options.hang
    write = write_hung_records if options.all_records else write_hung
    try:
        write(target, seed=options.seed or 0, fault=fault, answer=answer)
    except (FileExistsError, ValueError) as error:
        raise GrammarError(str(error)) from None
    return target


def write_large_demo(options: argparse.Namespace) -> Path:
    """Write a job of many ranks, with its answer beside it, and return its folder.

    Raises:
        GrammarError: No job has what is asked for, or the folder contains other files.
        OSError: Nothing can be written.
    """
    from ccltui.demo.large_job import DEFAULT_MEGABYTES, large_spec, write_large  # noqa: PLC0415
    from ccltui.parsers.machine_limits import allowed_cpus  # noqa: PLC0415

    target = options.directory or _default_directory(f"{FOLDER}-large")
    answer = target.with_name(f"{target.name}.answer.json")
    try:
        faults = _FAULTS_OF.get(options.condition or "clean")
        if faults is None or options.level not in (None, "full", "names"):
            raise ValueError("a job of many ranks is complete, at level full or names")
        spec = large_spec(
            options.ranks or 64,
            megabytes=options.rank_size or DEFAULT_MEGABYTES,
            seed=options.seed or 0,
            family=options.family,
            faults=tuple(options.fault or fault for fault in faults),
            names_only=options.level == "names",
        )
        truth = write_large(
            target,
            spec,
            answer=answer,
            workers=options.jobs or allowed_cpus(),
            report=print_written,
        )
    except (FileExistsError, ValueError) as error:
        raise GrammarError(str(error)) from None
    layout = " x ".join(f"{name} {size}" for name, size in truth["layout"].items())
    print_message(f"{truth['ranks']} ranks: {layout}; {truth['steps']} steps; truth in {answer}")
    for fault in truth["faults"]:
        print_message(f"injected: {fault['text']}: {time_text(fault['cost_ms'])} a step")
    return target


_FAULTS_OF = {"clean": ("any",), "null": (), "two": ("any", "any")}
"""Faults of a job of many ranks by its condition."""


def _megabytes(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < 100_000:
        raise GrammarError(f"{text[:40]!r} is not a size in MB, as in 0.5 or 6.5")
    return size


def _default_directory(name: str = FOLDER) -> Path:
    """Folder beside the column cache, else a temporary folder."""
    from ccltui.parsers.store.cache_place import default_cache_dir  # noqa: PLC0415

    beside = default_cache_dir().with_name(name)
    try:
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=beside):
            return beside
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"{name}-"))


def _loading(directory: Path, options: argparse.Namespace) -> LoadOptions:
    names = dict.fromkeys(("rank_map", "iteration", "capture"))  # the demo is a single job
    return LoadOptions.of(str(directory), argparse.Namespace(**vars(options), **names))


_OWN = {*_CHOICES, "no_open", "seed", "hang", "all_records", "rank_size", "serve"}
"""Options that choose the job, or how it is shown."""


def explorer_arguments(directory: Path, options: argparse.Namespace) -> list[str]:
    """Arguments with which ``ccltui`` opens the demo in ``directory`` without writing it again."""
    words = [str(directory)]
    for action in parser()._actions:  # argparse lists its options nowhere else
        value = getattr(options, action.dest, None)
        unset = value is None or value == action.default
        if not action.option_strings or action.dest in _OWN or unset:
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [action.option_strings[0], *([] if action.nargs == 0 else [str(one)])]
    return words
