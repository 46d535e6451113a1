"""Find contradictions of the workload card: in itself, with the traces, and with the configuration.

Each is one sentence with both values. Metrics use the value of the trace; of card and configuration
neither has precedence, because one of the two describes another job. A value that one of them does
not state contradicts nothing, except parallel degrees: a program without a stated degree uses 1.

A draft of a card has the source of each value. Only values that a trace or the configuration states
are included; where both state one, that of the trace. Users fill in the other fields.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.model.classify import distinct
from ccltui.metrics.model.rank_steps import steps_of
from ccltui.parsers.columns import Group, RankTrace
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.side.workload_card import Card

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.parsers.runs.run_records import TrainConfig


_DEGREES: Final = ("dp_replicate", "dp_shard", "tp", "pp", "cp")
_NCCL_LIKE: Final = frozenset({"nccl", "rccl"})
_NAMES_NO_LIBRARY: Final = frozenset({"", "undefined"})

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_MODEL = re.compile(r"(?:gb|gh|mi|rtx|gtx|[abhlptv])\d{1,4}(?:x|g|s|ti|a)?")
_MEMORY = re.compile(r"\d{1,4}gb")

_ALL_TO_ALL: Final = (b"all_to_all", b"alltoall", b"AllToAll", b"deep_ep")
_TRAINING_NAMES: Final[tuple[tuple[Group, str], ...]] = (
    ("annotations", "Optimizer.step#"),
    ("cpu_ops", "autograd::engine::evaluate_function"),
)


def check_card(job: Job) -> tuple[str, ...]:
    """Return the contradictions of the card of a job in a fixed order; () without a card."""
    return () if job.card is None else contradictions(job.card, job.ranks, job.world_size)


def contradictions(
    card: Card, ranks: tuple[RankTrace, ...] = (), world_size: int | None = None
) -> tuple[str, ...]:
    """Return the contradictions of a card with traces; without traces those inside the card."""
    findings = (
        _degrees_and_count(card),
        _count_and_world(card, ranks, world_size),
        _library(card, ranks),
        _library_version(card, ranks),
        _device(card, ranks),
        _experts(card, ranks),
        _phase(card, ranks),
    )
    return tuple(sentence for found in findings for sentence in found)


def _statement(card: Card, field: str, value: object) -> str:
    return f"the card states {printable(str(value))} ({card.provenance(field)})"


def _degrees_and_count(card: Card) -> Iterator[str]:
    """Compare the product of the degrees with the device count; a degree not stated is 1."""
    given = {name: degree for name in _DEGREES if (degree := getattr(card, name)) is not None}
    total = card.total_count
    if not given or total is None or _has_unusable_degree(card):
        return
    product = prod(given.values())
    if product != total:
        factors = " · ".join(f"{name} {degree}" for name, degree in given.items())
        yield (
            f"the card's parallel degrees multiply to {product} ({factors}), "
            f"its device count is {total} ({card.provenance('total_count')})"
        )


def _has_unusable_degree(card: Card) -> bool:
    stated = (card.values.get(card.key_of(name)) for name in _DEGREES)
    return any(
        value is not None and getattr(card, name) is None
        for name, value in zip(_DEGREES, stated, strict=True)
    )


def _count_and_world(card: Card, ranks: Iterable[RankTrace], world: int | None) -> Iterator[str]:
    total = card.total_count
    if total is None:
        return
    says = _statement(card, "total_count", f"{total} devices")
    if world is not None and world != total:
        yield f"{says}, the trace a world of {world} ranks"
    found = {trace.rank for trace in ranks if trace.rank is not None}
    if world is None and len(found) > total:
        yield f"{says}, there are traces of {len(found)} ranks"


def _library(card: Card, ranks: Iterable[RankTrace]) -> Iterator[str]:
    named = (card.communication_library or "").lower()
    backends = {trace.backend for trace in ranks} - _NAMES_NO_LIBRARY
    words = {word for backend in backends for word in re.split(r"[^a-z]+", backend.lower())}
    if named in _NCCL_LIKE and backends and not words & _NCCL_LIKE:
        found = listed(sorted(map(printable, backends)))
        yield f"{_statement(card, 'communication_library', named)}, the trace's backend is {found}"


def _library_version(card: Card, ranks: Iterable[RankTrace]) -> Iterator[str]:
    """Compare versions in every part that both state."""
    name = (card.communication_library or "nccl").lower()
    claimed = _version(card.communication_library_version)
    if not claimed or not name.startswith(tuple(_NCCL_LIKE)):
        return
    versions = {trace.nccl_version for trace in ranks if _version(trace.nccl_version)}
    others = [text for text in sorted(versions) if not _agree(claimed, _version(text))]
    if others:
        says = _statement(card, "communication_library_version", card.communication_library_version)
        yield f"{says}, the trace was taken with NCCL {listed(list(map(printable, others)))}"


def _version(text: str | None) -> tuple[int, ...]:
    match = _VERSION.search(text or "")
    return tuple(int(part[:9]) for part in match.group().split(".")) if match else ()


def _agree(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _device(card: Card, ranks: Iterable[RankTrace]) -> Iterator[str]:
    claimed = card.gpu_model
    names = {device.name for trace in ranks for device in trace.devices}
    if claimed is None:
        return
    others = [name for name in sorted(names) if _differ(claimed, name)]
    if others:
        found = listed([printable(name) for name in others])
        yield f"{_statement(card, 'gpu_model', claimed)}, the trace's devices are {found}"


def _differ(claimed: str, found: str) -> bool:
    """Whether two device names contain different models or memory sizes."""
    for pattern in (_MODEL, _MEMORY):
        one, other = _tokens(claimed, pattern), _tokens(found, pattern)
        if one and other and not any(_same(a, b) for a in one for b in other):
            return True
        if any(token.startswith(("gh", "gb")) for token in (*one, *other)):
            return False  # names of Grace systems contain the memory of their CPU
    return False


def _tokens(name: str, pattern: re.Pattern[str]) -> list[str]:
    joined = re.sub(r"\b(rtx|gtx)[\W_]+(?=\d)", r"\1", name.lower())
    return [word for word in re.split(r"[\W_]+", joined) if pattern.fullmatch(word)]


def _same(one: str, other: str) -> bool:
    """Whether two models are equal but for a letter at the end: mi300 and mi300x."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (longer[:-1] == shorter and longer[-1].isalpha())


def _experts(card: Card, ranks: tuple[RankTrace, ...]) -> Iterator[str]:
    if card.moe is False and (card.ep or 1) > 1:
        yield f"{_statement(card, 'moe', 'moe: false')}, and yet expert parallelism of {card.ep}"
    if not card.moe or not ranks or any(_may_exchange_tokens(trace) for trace in ranks):
        return
    collectives = sum(len(trace.collective_args) for trace in ranks)
    if collectives and (card.ep is None or card.ep > 1):
        degree = "no ep" if card.ep is None else f"ep {card.ep}"
        yield f"{_statement(card, 'moe', f'moe: true, {degree}')}, the trace has no all-to-all"


def _may_exchange_tokens(trace: RankTrace) -> bool:
    """Whether a trace names an all-to-all, or send-receive kernels, which may perform one."""
    names = trace.strings.blob.tobytes()
    return any(part in names for part in (*_ALL_TO_ALL, b"SendRecv"))


def _phase(card: Card, ranks: tuple[RankTrace, ...]) -> Iterator[str]:
    if card.phase == "training":
        if ranks and not any(steps_of(trace)[0] or training_names(trace) for trace in ranks):
            yield (
                f"{_statement(card, 'phase', 'training')}, the trace has neither a step marker "
                "nor a backward pass"
            )
    elif card.phase is not None:
        trained = [name for trace in ranks for name in training_names(trace)]
        if trained:
            yield f"{_statement(card, 'phase', card.phase)}, the trace has {trained[0]}"


def training_names(trace: RankTrace) -> list[str]:
    """Return the names in a trace that only training has: of optimizers and of autograd."""
    return [
        sign
        for group, sign in _TRAINING_NAMES
        if any(trace.text(name).startswith(sign) for name in distinct(trace.group(group).name))
    ]


SHARD: Final = "parallelism.data_parallel_shard_degree"
CONFIG_KEYS: Final[Mapping[str, str]] = {
    "dp_replicate": "parallelism.data_parallel_replicate_degree",
    "dp_shard": SHARD,
    "tp": "parallelism.tensor_parallel_degree",
    "pp": "parallelism.pipeline_parallel_degree",
    "cp": "parallelism.context_parallel_degree",
    "ep": "parallelism.expert_parallel_degree",
}
"""Key of the configuration by field of the card; ``ep`` lies across the other five degrees."""

LOCAL_BATCH: Final = "training.local_batch_size"
GLOBAL_BATCH: Final = "training.global_batch_size"
MICRO_BATCH: Final = "parallelism.pipeline_parallel_microbatch_size"
_EQUAL_FIELDS: Final[Mapping[str, str]] = {
    "iteration": "training.steps",
    "seq_len": "training.seq_len",
}
_PRECISIONS: Final[Mapping[str, str]] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}


def check_config(card: Card, config: TrainConfig, world_size: int | None = None) -> tuple[str, ...]:
    """Return a sentence for each contradiction, in a fixed order.

    Args:
        card: the workload card.
        config: the configuration.
        world_size: number of ranks, the card's device count if None; determines the degree of
            sharding where the configuration leaves it open.

    Raises:
        ConfigError: a value has the wrong type.
    """
    world_size = world_size or card.total_count
    expected = {
        **degrees_of(config, world_size),
        **{field: config.count(key) for field, key in _EQUAL_FIELDS.items()},
        "batch_size": _batch_size(card, config, world_size),
        "pp_microbatches": micro_batches_of(config),
    }
    found = [sentence for name in expected for sentence in _count(card, name, expected[name])]
    return (*found, *_dataset(card, config), *_precision(card, config), *_model(card, config))


def degrees_of(config: TrainConfig, world_size: int | None) -> dict[str, int | None]:
    """Return parallel degrees by field of the card; open sharding follows from ``world_size``."""
    found: dict[str, int | None] = {}
    for field, key in CONFIG_KEYS.items():
        stated = config.integer(key)
        found[field] = None if key == SHARD and (stated or 0) < 1 else (stated or 1)
    if found["dp_shard"] is None and world_size is not None:
        others = prod(found[name] or 1 for name in ("dp_replicate", "tp", "pp", "cp"))
        found["dp_shard"] = None if world_size % others else world_size // others
    return found


def global_batch_of(config: TrainConfig, world_size: int | None) -> int | None:
    """Return sequences per step of the job, as stated or of a rank times data parallelism."""
    stated, local = config.count(GLOBAL_BATCH), config.count(LOCAL_BATCH)
    degrees = degrees_of(config, world_size)
    replicas, shards = degrees["dp_replicate"], degrees["dp_shard"]
    if stated is not None or local is None or replicas is None or shards is None:
        return stated
    return local * replicas * shards


def micro_batches_of(config: TrainConfig) -> int | None:
    """Return micro-batches per pipeline step; None without a pipeline or without stated sizes."""
    local, micro = config.count(LOCAL_BATCH), config.count(MICRO_BATCH)
    if local is None or micro is None or (config.integer(CONFIG_KEYS["pp"]) or 1) < 2:
        return None
    return local // micro


def precision_of(config: TrainConfig) -> str | None:
    """Return the precision of the computation in the short form of cards, such as bf16."""
    stated = config.text("training.mixed_precision_param") or config.text("training.dtype")
    return None if stated is None else _short(stated)


def _batch_size(card: Card, config: TrainConfig, world_size: int | None) -> int | None:
    if card.batch_size_scope == "global":
        return global_batch_of(config, world_size)
    # The batch size of a card without a scope is that of a rank.
    return config.count(LOCAL_BATCH) if card.batch_size_scope is None else None


def _count(card: Card, field: str, expected: int | None) -> Iterator[str]:
    stated = card.count(field)
    if stated is not None and expected is not None and stated != expected:
        yield f"{_statement(card, field, stated)}, the configuration makes it {expected}"


def _dataset(card: Card, config: TrainConfig) -> Iterator[str]:
    stated, expected = card.dataset, config.text("training.dataset")
    if stated and expected and _plain(stated) != _plain(expected):
        says = _statement(card, "dataset", stated)
        yield f"{says}, the configuration trains on {printable(expected)}"


def _precision(card: Card, config: TrainConfig) -> Iterator[str]:
    expected = precision_of(config)
    known = {*_PRECISIONS.values(), *_PRECISIONS}
    if card.precision is None or expected is None or card.precision.lower() not in known:
        return
    if _short(card.precision) != expected:
        says = _statement(card, "precision", card.precision)
        yield f"{says}, the configuration computes in {printable(expected)}"


def _model(card: Card, config: TrainConfig) -> Iterator[str]:
    """Compare families: the card contains the first word of the model (llama3, Llama-3.1-8B)."""
    name = config.text("model.name")
    words = re.findall(r"[a-z]+", (name or "").lower())
    if card.model_family and words and words[0] not in card.model_family.lower():
        says = _statement(card, "model_family", card.model_family)
        yield f"{says}, the configuration trains {printable(name or '')}"


def _short(precision: str) -> str:
    return _PRECISIONS.get(precision.lower(), precision.lower())


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


Value = str | int | bool | tuple[str, ...]

_LIBRARIES: Final = {"nccl": "NCCL", "rccl": "RCCL", "gloo": "gloo", "mpi": "MPI", "xccl": "xCCL"}
_OF_MEGATRON: Final = {
    "tensor_model_parallel_group": "tp",
    "pipeline_model_parallel_group": "pp",
    "context_parallel_group": "cp",
    "expert_model_parallel_group": "ep",
}


class Fact(Struct, frozen=True):
    """A value of a card and its source, in a few words."""

    value: Value
    source: str


def draft(job: Job | None, config: TrainConfig | None) -> dict[str, Fact]:
    """Return the facts by field of the card; the field ``traces`` lists kinds of trace files.

    Raises:
        ConfigError: a value of the configuration has the wrong type.
    """
    world_size = None if job is None else job.world_size
    facts = {} if config is None else _of_config(config, world_size)
    return facts if job is None else facts | _of_traces(job)


def _of_config(config: TrainConfig, world_size: int | None) -> dict[str, Fact]:
    name, flavor = config.text("model.name"), config.text("model.flavor")
    found: Mapping[str, tuple[Value | None, str]] = {
        "model_family": ("-".join(filter(None, (name, flavor))) or None, "model.name and flavor"),
        "precision": (precision_of(config), "training.mixed_precision_param, else dtype"),
        "iteration": (config.count("training.steps"), "training.steps"),
        **_batch(config, world_size),
        "seq_len": (config.count("training.seq_len"), "training.seq_len"),
        "dataset": (config.text("training.dataset"), "training.dataset"),
        "pp_microbatches": (micro_batches_of(config), f"{LOCAL_BATCH} by {MICRO_BATCH}"),
        **{
            field: (degree, _source_of_degree(config, CONFIG_KEYS[field]))
            for field, degree in degrees_of(config, world_size).items()
        },
    }
    return {
        field: Fact(value, f"configuration, {source}")
        for field, (value, source) in found.items()
        if value is not None
    }


def _batch(config: TrainConfig, world_size: int | None) -> dict[str, tuple[Value | None, str]]:
    """Batch size of the job where it is known, else that of a rank, which needs no scope."""
    whole = global_batch_of(config, world_size)
    if whole is None:
        return {"batch_size": (config.count(LOCAL_BATCH), f"{LOCAL_BATCH}, of a rank")}
    stated = config.count(GLOBAL_BATCH) is not None
    source = GLOBAL_BATCH if stated else f"{LOCAL_BATCH} times data parallelism"
    return {"batch_size": (whole, source), "batch_size_scope": ("global", source)}


def _source_of_degree(config: TrainConfig, key: str) -> str:
    if config.count(key) is not None:
        return key
    return f"{key} is open: the rest of the world" if key == SHARD else f"{key} is not set: 1"


def _of_traces(job: Job) -> dict[str, Fact]:
    found: dict[str, tuple[Value | None, str]] = {
        **_hardware(job),
        **_library_of(job),
        **_degrees(job),
        "phase": _phase_of(job),
        "traces": (_kinds(job) or None, "files found"),
    }
    return {
        field: Fact(value, f"traces, {source}")
        for field, (value, source) in found.items()
        if value is not None
    }


def _hardware(job: Job) -> dict[str, tuple[Value | None, str]]:
    """Devices, where any were recorded; {} for a job on CPUs."""
    names = {device.name for trace in job.ranks for device in trace.devices if device.name}
    if not names and not any(len(trace.group("gpu")) for trace in job.ranks):
        return {}
    per_host = Counter(trace.host for trace in job.ranks if trace.rank is not None)
    whole = not job.missing_ranks and "" not in per_host
    counts = set(per_host.values())
    return {
        "gpu_type": ("GPU", "device events"),
        "gpu_model": (_slug(names.pop()) if len(names) == 1 else None, "deviceProperties"),
        "total_count": (job.world_size, "world size"),
        "count_per_node": (
            counts.pop() if whole and job.world_size and len(counts) == 1 else None,
            "ranks of each host",
        ),
    }


def _library_of(job: Job) -> dict[str, tuple[Value | None, str]]:
    words = {
        word
        for trace in job.ranks
        for word in re.split(r"[^a-z]+", trace.backend.lower())
        if word in _LIBRARIES
    }
    # "cpu:gloo,cuda:nccl": prefer the library of the device.
    library = _only(words - {"gloo"} or words)
    versions = {trace.nccl_version for trace in job.ranks if trace.nccl_version}
    return {
        "communication_library": (_LIBRARIES.get(library or ""), "backend"),
        "communication_library_version": (
            _only(versions) if library in ("nccl", "rccl") else None,
            "nccl_version",
        ),
    }


def _only(found: set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None


def _degrees(job: Job) -> dict[str, tuple[Value | None, str]]:
    """Sizes of the groups of single axes, where all groups of an axis have one size.

    Groups of several axes (``mesh_fsdp``, ``mesh_dp_shard_cp``) and those of experts only
    (``mesh_etp``) are excluded: their sizes are not the degrees.
    """
    sizes: dict[str, set[int]] = {}
    for trace in job.ranks:
        for group in trace.process_groups:
            name = group.description.lower()
            field = _OF_MEGATRON.get(name, name.removeprefix("mesh_"))
            if field in CONFIG_KEYS:
                sizes.setdefault(field, set()).add(len(group.ranks) or group.size)
    return {
        field: (found.pop(), "process groups")
        for field, found in sizes.items()
        if len(found) == 1 and min(found) > 0
    }


def _phase_of(job: Job) -> tuple[Value | None, str]:
    names = sorted({name for trace in job.ranks for name in training_names(trace)})
    return ("training" if names else None), names[0] if names else ""


def _kinds(job: Job) -> tuple[str, ...]:
    kinds = {file.format.card_name for file in job.discovery.files}
    return tuple(sorted(kinds - {""}))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
