"""Read a workload card: normalised values, typed accessors, and the line of each value.

Cards of all generations are converted to one set of keys. Who contributed a card and how to
reach them is personal: those values are dropped while reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, Literal, TypeVar

from msgspec import Struct
from msgspec import field as struct_field

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import CardError
from ccltui.parsers.safe_text import listed, printable
from ccltui.parsers.text import yaml_tree
from ccltui.parsers.text.yaml_tree import Node, Pair, load_yaml, read_bytes

PERSONAL = frozenset(
    {"contributor", "contributors", "contact", "contacts", "email", "e_mail", "author", "authors"}
)
"""Keys whose values are dropped: who contributed a card, and how to reach them."""

_OTHER_KNOWN = frozenset(
    {
        "version",
        "description",
        "hf_url",
        "trace_url",
        "workload.data.max_model_len",
        "workload.data.max_num_batched_tokens",
        "workload.data.max_num_seqs",
        "workload.data.max_tokens",
        "workload.data.num_prompts",
        "workload.data.request_rate",
        "workload.hardware.network_topo.topology",
        "workload.hardware.network_topo.bandwidth_gbps",
        "model_executor.framework.compiler_tool_selection",
        "model_executor.protocol_selection",
        "metric_source.traces",
        "metric_source.metrics_specific_trace",
    }
)
# Maps whose keys are free; the bare name stands for an empty one.
_FREE_MAPS = (
    "collection_notes",
    "model_executor.framework.env",
    "model_executor.communication_library.env",
    "model_executor.expert_parallel",
    "model_executor.serving",
)


Phase = Literal["training", "inference", "serving"]

Place = tuple[str, int, str]
"""Position of a value: normalised path as in the file, line, text as written."""

_PHASES: Mapping[str, Phase] = {
    "training": "training",
    "inference": "inference",
    "serving": "serving",
}
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_MOST = 1 << 63
_NO_VALUE = frozenset({"", "n/a", "na", "none", "null", "tbd", "unknown", "-", "?"})
_TRACE_ALIASES = {"json": "kineto_trace", "execution_trace": "torch_et"}


_T = TypeVar("_T")


class Field(Generic[_T]):
    """An accessor of a card: the normalised keys that may hold its value, the first given wins."""

    def __init__(self, read: Callable[[Card, str], _T | None], *keys: str) -> None:
        self.is_count = read is _count
        self.keys = keys
        self._read = read
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, card: Card, owner: type) -> _T | None:
        return self._read(card, self._name)


def _count(card: Card, name: str) -> int | None:
    """A positive whole number."""
    return as_count(card.values.get(card.key_of(name)))


def _text(card: Card, name: str) -> str | None:
    key = card.key_of(name)
    value = card.values.get(key)
    if isinstance(value, (int, float)) and key in card.places:
        return card.places[key][2]  # 2.20 is a version, not 2.2
    return as_text(value)


def _lower(card: Card, name: str) -> str | None:
    text = _text(card, name)
    return None if text is None else text.lower()


def _phase(card: Card, name: str) -> Phase | None:
    return _PHASES.get(_lower(card, name) or "")


def _truth(card: Card, name: str) -> bool | None:
    value = card.values.get(card.key_of(name))
    return value if isinstance(value, bool) else _TRUTH.get(str(value).lower())


def _architecture(name: str) -> Field[int]:
    return Field(_count, f"workload.model.model_arch.{name}", f"workload.model.{name}")


_DATA = "workload.data"
_XPU = "workload.hardware.xpu_spec"
_PLAN = "model_executor.model_plan_parallelization"
_LIBRARY = "model_executor.communication_library"


class Card(Struct, frozen=True):
    """One workload card.

    ``values``: normalised dotted key -> value, sorted by key; lists are tuples. Each accessor
    gives None for a value that is absent, null, a placeholder, or of a form that cannot be used
    (then ``notes`` say so): never a guess.
    """

    path: str
    values: Mapping[str, object]
    unknown_keys: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    places: Mapping[str, Place] = struct_field(default_factory=dict)

    phase = Field(_phase, "workload.model.phase")
    moe = Field(_truth, "workload.model.moe")  # whether the model is a mixture of experts
    granularity = Field(_text, "workload.model.granularity")  # what one iteration does: request, …
    model_family = Field(_text, "workload.model.model_family")
    precision = Field(_text, "workload.model.precision")
    epochs = Field(_count, "workload.model.epochs")
    iteration = Field(_count, "workload.model.iteration")  # steps of the job, not of the trace
    num_params = _architecture("num_params")
    num_params_active = _architecture("num_params_active")  # those that one token uses
    num_params_embedding = _architecture("num_params_embedding")
    num_layers = _architecture("num_layers")
    num_heads = _architecture("num_heads")
    head_dim = _architecture("head_dim")
    num_kv_heads = _architecture("num_kv_heads")
    hidden_size = _architecture("hidden_size")
    intermediate_size = _architecture("intermediate_size")
    vocab_size = _architecture("vocab_size")
    batch_size = Field(_count, f"{_DATA}.batch_size")  # sequences a step, in the scope below
    batch_size_scope = Field(_lower, f"{_DATA}.batch_size_scope")  # "global": of the whole job
    seq_len = Field(_count, f"{_DATA}.seq_len")
    input_len = Field(_count, f"{_DATA}.input_len")  # prompt tokens a request
    output_len = Field(_count, f"{_DATA}.output_len")  # generated tokens a request
    dataset = Field(_text, f"{_DATA}.dataset")
    gpu_type = Field(_text, f"{_XPU}.type")  # GPU or TPU
    gpu_model = Field(_text, f"{_XPU}.model")  # as the card spells it: nvidia_a100_40gb
    total_count = Field(_count, f"{_XPU}.total_count")  # devices of the job
    count_per_node = Field(_count, f"{_XPU}.count_per_node")
    driver_version = Field(_text, "workload.hardware.driver_version")  # or often that of CUDA
    framework = Field(_text, "model_executor.framework.name")
    framework_version = Field(_text, "model_executor.framework.version")
    dp_replicate = Field(_count, f"{_PLAN}.dp_replicate")
    dp_shard = Field(_count, f"{_PLAN}.dp_shard")
    tp = Field(_count, f"{_PLAN}.tp")
    pp = Field(_count, f"{_PLAN}.pp")
    cp = Field(_count, f"{_PLAN}.cp")
    ep = Field(_count, f"{_PLAN}.ep")
    pp_microbatches = Field(_count, f"{_PLAN}.pp_mb")  # micro-batches of a pipeline step
    communication_library = Field(_text, f"{_LIBRARY}.name")  # NCCL, RCCL, gloo, …
    communication_library_version = Field(_text, f"{_LIBRARY}.version")

    def provenance(self, field: str) -> str:
        """Path in the card of the value that an accessor returns: "workload.data.batch_size".

        It is the path as the card has it, so that it can be found there. Also takes a dotted
        key. Raises KeyError for a name that is no field.
        """
        key = field if "." in field else self.key_of(field)
        return self.places[key][0] if key in self.places else key

    def line(self, field: str) -> int | None:
        """Line of that value, None when the card does not give it. Also takes any key."""
        place = self.places.get(self.key_of(field) if field in FIELDS else field)
        return None if place is None else place[1]

    def key_of(self, field: str) -> str:
        """Normalised key that an accessor reads."""
        keys = FIELDS[field]
        return next((key for key in keys if self.values.get(key) is not None), keys[0])

    def count(self, field: str) -> int | None:
        """Value of a field of COUNTS, None when absent or not a positive whole number."""
        return _count(self, field)

    @property
    def traces(self) -> tuple[str, ...]:
        """Kinds of trace that the card lists, by their current names."""
        listed_traces = self.values.get("metric_source.traces")
        if not isinstance(listed_traces, tuple):
            listed_traces = (listed_traces,)
        names = [str(item).lower() for item in listed_traces if item is not None]
        return tuple(_TRACE_ALIASES.get(name, name) for name in names)


_FIELDS_OF_CARD = {name: one for name, one in vars(Card).items() if isinstance(one, Field)}
FIELDS: Mapping[str, tuple[str, ...]] = {name: one.keys for name, one in _FIELDS_OF_CARD.items()}
"""Name of an accessor -> normalised keys that may hold its value, the first one given wins."""
COUNTS = frozenset(name for name, one in _FIELDS_OF_CARD.items() if one.is_count)
"""Accessors whose value is a positive whole number."""


def is_known(key: str) -> bool:
    """True for a normalised dotted key that some generation of cards has."""
    return (
        key in _OTHER_KNOWN
        or any(key == name or key.startswith(f"{name}.") for name in _FREE_MAPS)
        or any(key in keys for keys in FIELDS.values())
    )


def known_keys() -> frozenset[str]:
    """All normalised dotted keys, maps whose own keys are free by their bare name."""
    return frozenset(
        (*_OTHER_KNOWN, *_FREE_MAPS, *(key for keys in FIELDS.values() for key in keys))
    )


def is_section(key: str) -> bool:
    """True for a normalised dotted key that holds known keys: ``workload.data``."""
    return any(name.startswith(f"{key}.") for name in known_keys())


def as_count(value: object) -> int | None:
    """A positive whole number below 2**63, also in quotes; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if 0 < value < _MOST and value.is_integer() else None
    if isinstance(value, int):
        return value if 0 < value < _MOST else None
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9_]{1,18}\s*", value) and value.strip("_ "):
        return int(value.replace("_", "")) or None
    return None


def as_text(value: object) -> str | None:
    """A text, None for lists, mappings and the usual placeholders."""
    if value is None or isinstance(value, (tuple, dict)):
        return None
    text = str(value).strip()
    return None if text.lower() in _NO_VALUE else text


__all__ = ["Card", "read_card"]

_SECTIONS = frozenset({"workload", "metric_source", "model_executor"})


def read_card(path: Path, *, shown_path: str | None = None) -> Card:
    """Read one card; CardError with file, line and column when it is no valid card."""
    where = shown_path or printable(str(path))
    root = load_yaml(read_bytes(path, where), where)
    if not isinstance(root, yaml_tree.Mapping):
        raise CardError("not a workload card: it has no keys", path=where, line=1, column=1)
    if not any(_normalised(pair.key) in _SECTIONS for pair in root.pairs):
        message = "not a workload card: neither `workload:` nor `metric_source:`"
        raise CardError(message, path=where, line=root.mark.line, column=root.mark.column)
    reading = _Reading(where)
    reading.walk(root, "", "")
    card = Card(
        where,
        dict(sorted(reading.values.items())),
        tuple(sorted(key for key in reading.values if not is_known(key))),
        tuple(reading.notes),
        reading.places,
    )
    notes = (*card.notes, *_unusable(card), *_unknown(card))
    return Card(card.path, card.values, card.unknown_keys, notes, card.places)


def _normalised(key: str) -> str:
    return re.sub(r"[-\s]", "_", key.strip().lower())


class _Reading:
    """Flatten the tree; the same key under two spellings must agree."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values: dict[str, object] = {}
        self.places: dict[str, Place] = {}
        self.notes: list[Note] = []

    def walk(self, mapping: yaml_tree.Mapping, prefix: str, written_prefix: str) -> None:
        """Take every leaf below ``mapping``; ``written_prefix`` is its path in the file."""
        for pair in mapping.pairs:
            # Names of environment variables stay as they are.
            key = pair.key if prefix.endswith(".env.") else _normalised(pair.key)
            if key in PERSONAL:
                continue
            name, written = prefix + key, written_prefix + key
            if name == "workload.model_executor":
                name = "model_executor"
            if isinstance(pair.node, yaml_tree.Mapping) and pair.node.pairs:
                self.walk(pair.node, f"{name}.", f"{written}.")
            elif name in _SECTIONS and not _is_empty(pair.node):
                self._fail(f"`{printable(pair.key)}:` holds no keys", pair)
            elif not (_is_empty(pair.node) and is_section(name)):
                self._put(name, written, pair)

    def _put(self, name: str, written: str, pair: Pair) -> None:
        value = _plain(pair.node)
        if name in self.values and self.values[name] != value:
            line = self.places[name][1]
            self._fail(f"{printable(name)} contradicts the value in line {line}", pair)
        if name in self.values:
            self.notes.append(
                Note("card_repeated", f"{printable(name)} is given twice, with the same value")
            )
            return
        text = pair.node.text if isinstance(pair.node, yaml_tree.Scalar) else ""
        self.values[name] = value
        self.places[name] = (written, pair.mark.line, text)

    def _fail(self, message: str, pair: Pair) -> None:
        raise CardError(message, path=self.path, line=pair.mark.line, column=pair.mark.column)


def _is_empty(node: Node) -> bool:
    if isinstance(node, yaml_tree.Scalar):
        return node.value is None or node.value == ""
    return node.size == 1


def _plain(node: Node) -> object:
    if isinstance(node, yaml_tree.Scalar):
        return node.value
    if isinstance(node, yaml_tree.Sequence):
        return tuple(_plain(item) for item in node.items)
    pairs = {_normalised(pair.key): pair.node for pair in node.pairs}
    return {key: _plain(inner) for key, inner in pairs.items() if key not in PERSONAL}


def _unusable(card: Card) -> list[Note]:
    notes = []
    for name in FIELDS:
        key = card.key_of(name)
        value = card.values.get(key)
        if value is None or (as_text(value) is None and not isinstance(value, (tuple, dict))):
            continue
        if name == "batch_size" and isinstance(value, tuple):
            why = "is a list, a sweep of several runs: the card does not state which one this is"
        elif name in COUNTS and as_count(value) is None:
            why = "is not a positive whole number"
        elif name in ("phase", "moe") and getattr(card, name) is None:
            why = (
                "is not training, inference or serving"
                if name == "phase"
                else "is not true or false"
            )
        elif isinstance(value, (tuple, dict)):
            why = "is a list or mapping, not a text"
        else:
            continue
        notes.append(Note("card_value", f"{card.provenance(name)} {why}"))
    return notes


def _unknown(card: Card) -> list[Note]:
    if not card.unknown_keys:
        return []
    keys = [printable(key) for key in card.unknown_keys]
    verb = "is" if len(keys) == 1 else "are"
    return [Note("card_unknown_keys", f"{listed(keys)} {verb} not known here", count=len(keys))]
