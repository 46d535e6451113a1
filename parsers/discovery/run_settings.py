"""Find the folders of training runs, and what their files state of the configuration of a run.

Each file is read by itself. Only files in the folders above the capture count: those of the run
that left it. A file that cannot be read states nothing here; the commands that report on it name
the failure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.cluster import (
    CLUSTER_BENCHMARK,
    GPU_TOPOLOGY,
    IB_STATUS,
    NCCL_LOG,
    NCCL_RAS,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
    NCCL_TOPOLOGY,
)
from ccltui.parsers.errors import TraceError
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.format import UNKNOWN, Format
from ccltui.parsers.found_files import Capture, Discovery, FoundFile
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    PROFILE_SUMMARY,
    RUN_COMPLETE,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
    WATCHDOG_LOG,
)
from ccltui.parsers.side.unread_files import LOG
from ccltui.parsers.text.compression import read_head

ANCHORS: Final = frozenset({TRAINING_METRICS, STEP_LOG, LAUNCHER_METADATA, RUN_COMPLETE})
"""A folder that holds a file of one of these is a run."""

CLUSTER_FORMATS: Final = frozenset(
    {
        CLUSTER_BENCHMARK,
        NCCL_TESTS,
        NCCL_TESTS_JSON,
        NCCL_LOG,
        NCCL_TOPOLOGY,
        GPU_TOPOLOGY,
        IB_STATUS,
    }
)
"""Files about machines, in any folder."""

_NAMES: Final[dict[str, Format]] = {
    "training_metrics.json": TRAINING_METRICS,
    "training_steps.jsonl": STEP_LOG,
    "launcher_metadata.json": LAUNCHER_METADATA,
    "run_complete.txt": RUN_COMPLETE,
    "profile_summary.json": PROFILE_SUMMARY,
    "nccl_topo.xml": NCCL_TOPOLOGY,
    "ibstat.txt": IB_STATUS,
    "topo.txt": GPU_TOPOLOGY,
}
"""Format by file name, for files that are empty, cut off or not recognised."""


class RunFolder(Struct, frozen=True):
    """A run: ``name`` is its folder below what was opened ("" for that itself), or its log."""

    name: str
    files: tuple[FoundFile, ...]

    def of(self, *formats: Format) -> tuple[FoundFile, ...]:
        """Return its files of some formats, also those recognised by name only."""
        return tuple(file for file in self.files if format_meant(file) in formats)


def format_meant(file: FoundFile) -> Format:
    """Return the format of a file by its content, by its name where that is not recognised."""
    if file.format is not UNKNOWN:
        return file.format
    return _NAMES.get(PurePosixPath(file.path).name.lower(), UNKNOWN)


def has_runs(files: Iterable[FoundFile]) -> bool:
    """Whether any file is of a run."""
    wanted = {*ANCHORS, TRAINING_LOG}
    return any(format_meant(file) in wanted for file in files)


def has_cluster(files: Iterable[FoundFile]) -> bool:
    """Whether any file describes machines."""
    return any(format_meant(file) in CLUSTER_FORMATS for file in files)


def has_hangs(files: Iterable[FoundFile]) -> bool:
    """Whether any file is a dump, a log or a report that is written where a job hangs."""
    return any(file.format in (FLIGHT_RECORD, WATCHDOG_LOG, NCCL_RAS) for file in files)


def has_hours(files: Iterable[FoundFile]) -> bool:
    """Whether any file is of a recorder that runs for hours."""
    return any(file.format is NCCL_INSPECTOR for file in files)


def run_folders(discovery: Discovery) -> tuple[RunFolder, ...]:
    """Return all runs below what was opened, in the natural order of their names.

    A folder with an anchor takes everything below it up to the next such folder. A training log
    outside of any is a run of its own.
    """
    files = [file for file in discovery.files if file.duplicate_of is None]
    homes = _homes(files)
    held: dict[str, list[FoundFile]] = defaultdict(list)
    alone: list[FoundFile] = []
    for file in files:
        home = _home(_folder(file), homes)
        if home is not None:
            held[home].append(file)
        elif file.format is TRAINING_LOG:
            alone.append(file)
    runs = [RunFolder(name, tuple(held[name])) for name in held]
    runs += _logs(alone, files)
    place = {file.path: number for number, file in enumerate(files)}
    return tuple(sorted(runs, key=lambda run: place[run.files[0].path]))


def _homes(files: Iterable[FoundFile]) -> set[str]:
    """Return the folders of runs.

    The line of completion is printed too: a log with it below a run, as torchrun writes for each
    rank, is of that run.
    """
    anchors = [file for file in files if format_meant(file) in ANCHORS]
    printed = [file for file in anchors if file.format is RUN_COMPLETE and not _is_named(file)]
    homes = {_folder(file) for file in anchors if file not in printed}
    return homes | {_folder(file) for file in printed if _home(_folder(file), homes) is None}


def _is_named(file: FoundFile) -> bool:
    return PurePosixPath(file.path).name.lower().startswith("run_complete")


def _logs(alone: Sequence[FoundFile], files: Sequence[FoundFile]) -> list[RunFolder]:
    """Return training logs as runs, named by their folder where that holds no other."""
    by_folder: dict[str, list[FoundFile]] = defaultdict(list)
    for file in _last_checkpoints(alone):
        by_folder[_folder(file)].append(file)
    runs = []
    for folder, logs in by_folder.items():
        if len(logs) == 1:
            neighbours = [file for file in files if _folder(file) == folder]
            runs.append(RunFolder(folder, tuple(neighbours)))
        else:
            runs += [RunFolder(log.path, (log,)) for log in logs]
    return runs


_CHECKPOINT: Final = re.compile(
    r"(?P<run>(?:.*/)?)checkpoint-(?P<step>\d{1,12})/trainer_state\.json"
)


def _last_checkpoints(logs: Sequence[FoundFile]) -> list[FoundFile]:
    """Return logs without the checkpoints of which a later one repeats the history.

    The Trainer of Hugging Face saves the history with each, and of the whole run beside them.
    """
    paths = {log.path for log in logs}
    last: dict[str, int] = {}
    for log in logs:
        if (match := _CHECKPOINT.fullmatch(log.path)) is not None:
            last[match["run"]] = max(int(match["step"]), last.get(match["run"], 0))
    kept = []
    for log in logs:
        match = _CHECKPOINT.fullmatch(log.path)
        is_whole = match is not None and f"{match['run']}trainer_state.json" in paths
        if match is None or (int(match["step"]) == last[match["run"]] and not is_whole):
            kept.append(log)
    return kept


def _folder(file: FoundFile) -> str:
    return file.path.rpartition("/")[0]


def _home(folder: str, homes: set[str]) -> str | None:
    """Return the nearest folder above that is a run."""
    while True:
        if folder in homes:
            return folder
        if not folder:
            return None
        folder = folder.rpartition("/")[0]


Standing = Literal["traces", "program", "arguments", "config"]
"""Origin of a value: groups in the traces, the program while it ran, arguments, configuration."""

CONFIG_NAME: Final = "train_config.toml"
DEGREES: Final = ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep")
KEYS: Final[Mapping[str, str]] = {
    "training.seq_len": "seq_len",
    "training.local_batch_size": "local_batch",
    "training.batch_size": "local_batch",
    "training.global_batch_size": "global_batch",
    "parallelism.pipeline_parallel_microbatch_size": "micro_batch",
    "parallelism.data_parallel_replicate_degree": "dp_replicate",
    "parallelism.data_parallel_shard_degree": "dp_shard",
    "parallelism.tensor_parallel_degree": "tp",
    "parallelism.pipeline_parallel_degree": "pp",
    "parallelism.context_parallel_degree": "cp",
    "parallelism.expert_parallel_degree": "ep",
}
"""Key of torchtitan -> field here; -1 means automatic."""

_OPEN: Final = -1
_MODE: Final = "activation_checkpoint.mode"
_MOST_LOGS: Final = 8
_LOG_BYTES: Final = 1 << 20  # where a program logs its options
_DOCUMENT_BYTES: Final = 1 << 20

_ARGUMENT: Final = re.compile(
    r"--(?P<key>(?:training|parallelism)\.[a-z_-]+)(?:=|\s+)(?P<value>-?\d{1,12})(?!\S)"
)
_CHECKPOINTING: Final = re.compile(
    r"--activation[_-]checkpoint\.mode(?:=|\s+)(\w+)|(?<!\S)activation-checkpoint:(\w+)"
)
_LAUNCHERS: Final = ("torch.distributed.run", "torchrun", "--job.config_file", "--job.config-file")
_SIZES: Final = re.compile(
    r"local batch size (?P<local_batch>\d{1,12}), global batch size (?P<global_batch>\d{1,12}), "
    r"gradient[ _]accumulation[ _]steps:? (?P<gradient_accumulation>\d{1,12}), "
    r"sequence length (?P<seq_len>\d{1,12})"
)
_MESH: Final = re.compile(r"Building device mesh with parallelism: ([^\n]{0,200})")
_MESH_DEGREE: Final = re.compile(r"\b(dp_replicate|dp_shard|tp|pp|cp|ep)=(\d{1,9})")


class RunSource(Struct, frozen=True):
    """One file: ``values`` by field, those in ``implied`` by leaving the key out.

    ``checkpointing`` is how activations are kept, "" where it does not say. ``is_log``: it holds
    the steps of the run, whether or not it states a value.
    """

    standing: Standing
    path: str
    real_path: str
    values: Mapping[str, int] = field(default_factory=dict)
    implied: frozenset[str] = frozenset()
    checkpointing: str = ""
    is_log: bool = False


def run_sources(discovery: Discovery, capture: Capture) -> tuple[RunSource, ...]:
    """Return the sources of the run that wrote ``capture``, records of what ran before requests."""
    files = _files_above(discovery, capture)
    logs = [file for file in files if file.format in (TRAINING_LOG, WATCHDOG_LOG, LOG)]
    own = f"_{capture.source}.log"  # a job may run once under each profiler
    logs.sort(key=lambda file: (file.format is not TRAINING_LOG, not file.path.endswith(own)))
    nearest = (
        *((_metrics, file) for file in _nearest(files, TRAINING_METRICS)),
        *((_completion, file) for file in _nearest(files, RUN_COMPLETE)),
        *((_launch, file) for file in _nearest(files, LAUNCHER_METADATA)),
    )
    found = [source for file in _in_one_folder(logs)[:_MOST_LOGS] for source in _log(file)]
    found += [source for read, file in nearest for source in _sources(read, file)]
    found += _config(Path(discovery.root), _shared_folder(capture))
    order = ("program", "arguments", "config")
    return tuple(sorted(found, key=lambda source: order.index(source.standing)))


def argument_values(words: Iterable[str]) -> dict[str, int]:
    """Fields that arguments of a training program state; the last value counts."""
    return _arguments_in(" ".join(words))


def _arguments_in(text: str) -> dict[str, int]:
    found = {}
    for match in _ARGUMENT.finditer(text):
        name = KEYS.get(match["key"].replace("-", "_"))
        if name is not None:
            found[name] = int(match["value"])
    return found


def _files_above(discovery: Discovery, capture: Capture) -> list[FoundFile]:
    """Files in the folder of the traces and those above it, the nearest first."""
    shared = _shared_folder(capture)
    found = [
        file
        for file in discovery.files
        if file.problem is None and _is_above(PurePosixPath(file.path).parent.parts, shared)
    ]
    return sorted(found, key=lambda file: -len(PurePosixPath(file.path).parts))


def _shared_folder(capture: Capture) -> tuple[str, ...]:
    folders = [PurePosixPath(file.path).parent.parts for file in capture.files]
    return min(folders, key=len, default=())


def _is_above(folder: Sequence[str], other: Sequence[str]) -> bool:
    return tuple(other[: len(folder)]) == tuple(folder)


def _nearest(files: Sequence[FoundFile], wanted: Format) -> list[FoundFile]:
    return [file for file in files if file.format is wanted][:1]


def _in_one_folder(logs: Sequence[FoundFile]) -> list[FoundFile]:
    """Logs of the nearest folder that has any: one further up may be of another run."""
    depths = [len(PurePosixPath(file.path).parts) for file in logs]
    return [file for file, depth in zip(logs, depths, strict=True) if depth == max(depths)]


def _sources(read: Callable[[FoundFile], list[RunSource]], file: FoundFile) -> list[RunSource]:
    if file.size_bytes > _DOCUMENT_BYTES:
        return []
    try:
        return read(file)
    except (TraceError, OSError):
        return []


def _source(standing: Standing, file: FoundFile, values: Mapping[str, int | None]) -> RunSource:
    stated = {name: value for name, value in values.items() if value is not None}
    return RunSource(standing, file.path, file.real_path, stated)


def _metrics(file: FoundFile) -> list[RunSource]:
    from ccltui.parsers.runs.training_metrics import read_training_metrics  # noqa: PLC0415 - few have any

    known = read_training_metrics(Path(file.real_path), shown=file.path).configuration
    values = {
        "seq_len": known.seq_len,
        "local_batch": known.micro_batch,
        "global_batch": known.global_batch,
        "gradient_accumulation": known.grad_accum,
        "world_size": known.world_size,
    }
    return [_source("program", file, values)]


def _completion(file: FoundFile) -> list[RunSource]:
    from ccltui.parsers.runs.run_records import read_completion  # noqa: PLC0415 - few have any

    known = read_completion(Path(file.real_path), shown=file.path)
    return [_source("program", file, {"world_size": known.world_size})]


def _launch(file: FoundFile) -> list[RunSource]:
    """Arguments, and the configuration with them on top where the launcher wrote it."""
    from ccltui.parsers.runs.run_records import read_launch  # noqa: PLC0415 - few have any

    known = read_launch(Path(file.real_path), shown=file.path)
    stated = {**_stated(known.configuration), **argument_values(known.arguments)}
    whole = _with_defaults(stated, known.configuration)
    values = {**whole, "world_size": known.world_size}
    source = _source("arguments", file, values)
    implied = frozenset(whole) - frozenset(stated)
    kept = _checkpointing(" ".join(known.arguments)) or known.configuration.get(_MODE, "")
    return [replace(source, implied=implied, checkpointing=kept)]


def _config(root: Path, folder: tuple[str, ...]) -> list[RunSource]:
    """The nearest configuration file; discovery lists only what a profiler or a run writes."""
    for depth in range(len(folder), -1, -1):
        path = root.joinpath(*folder[:depth], CONFIG_NAME)
        try:
            if path.is_file():
                return [_configured(path, "/".join((*folder[:depth], CONFIG_NAME)))]
        except (TraceError, OSError):
            return []
    return []


def _configured(path: Path, shown_path: str) -> RunSource:
    from ccltui.parsers.runs.run_records import read_train_config  # noqa: PLC0415 - few have any

    values = read_train_config(path).values
    stated = _stated(values)
    whole = _with_defaults(stated, values)
    implied = frozenset(whole) - frozenset(stated)
    kept = values.get(_MODE)
    mode = kept if isinstance(kept, str) else ""
    return RunSource("config", shown_path, str(path), whole, implied, checkpointing=mode)


def _stated(values: Mapping[str, object]) -> dict[str, int]:
    found = {}
    for key, name in KEYS.items():
        value = values.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = value
    return found


def _with_defaults(stated: Mapping[str, int], values: Mapping[str, object]) -> dict[str, int]:
    """A degree that a configuration of parallelism leaves out is 1, that of sharding the rest."""
    if not any(key.startswith("parallelism.") for key in values):
        return dict(stated)
    return {**dict.fromkeys(DEGREES, 1), "dp_shard": _OPEN, **stated}


def _log(file: FoundFile) -> list[RunSource]:
    """Return what the program logs of itself, and the command that the launcher wrote above it."""
    try:
        text = read_head(file.real_path, _LOG_BYTES).data.decode("utf-8", "replace")
    except OSError:
        return []
    said = [match.groupdict() for match in _SIZES.finditer(text)]
    said += [dict(_MESH_DEGREE.findall(match[1])) for match in _MESH.finditer(text)]
    program = RunSource(
        "program",
        file.path,
        file.real_path,
        _agreed(said),
        is_log=file.format is TRAINING_LOG,
    )
    commands = [
        line
        for line in text.splitlines()
        if "--" in line and any(word in line for word in _LAUNCHERS)
    ]
    arguments = _source("arguments", file, _agreed(map(_arguments_in, commands)))
    kept = {_checkpointing(command) for command in commands}
    if len(kept) == 1:
        arguments = replace(arguments, checkpointing=kept.pop())
    return [one for one in (program, arguments) if one.values or one.checkpointing or one.is_log]


def _checkpointing(command: str) -> str:
    """Mode of activation checkpointing, the last that a command states."""
    found = _CHECKPOINTING.findall(command)
    return next((mode for mode in found[-1] if mode), "") if found else ""


def _agreed(said: Iterable[Mapping[str, str | int]]) -> dict[str, int]:
    """Values that are the same wherever they occur: a log may hold several runs."""
    found: dict[str, set[int]] = {}
    for values in said:
        for name, value in values.items():
            found.setdefault(name, set()).add(int(value))
    return {name: values.pop() for name, values in found.items() if len(values) == 1}
