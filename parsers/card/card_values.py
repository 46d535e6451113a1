"""A workload card in memory: normalised values, typed accessors, and the line of each value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec import field as struct_field

from ccltui.parsers.columns import Note

PERSONAL = frozenset(
    {"contributor", "contributors", "contact", "contacts", "email", "e_mail", "author", "authors"}
)
"""Keys whose values are dropped: who contributed a card, and how to reach them."""

_PLAN = "model_executor.model_plan_parallelization"
_XPU = "workload.hardware.xpu_spec"
_ARCH = ("workload.model.model_arch", "workload.model")
_LIBRARY = "model_executor.communication_library"

_ARCHITECTURE = (
    "num_params",
    "num_params_active",
    "num_params_embedding",
    "num_layers",
    "num_heads",
    "head_dim",
    "num_kv_heads",
    "hidden_size",
    "intermediate_size",
    "vocab_size",
)

FIELDS: Mapping[str, tuple[str, ...]] = {
    "phase": ("workload.model.phase",),
    "moe": ("workload.model.moe",),
    "granularity": ("workload.model.granularity",),
    "model_family": ("workload.model.model_family",),
    "precision": ("workload.model.precision",),
    "epochs": ("workload.model.epochs",),
    "iteration": ("workload.model.iteration",),
    **{name: tuple(f"{place}.{name}" for place in _ARCH) for name in _ARCHITECTURE},
    "batch_size": ("workload.data.batch_size",),
    "batch_size_scope": ("workload.data.batch_size_scope",),
    "seq_len": ("workload.data.seq_len",),
    "input_len": ("workload.data.input_len",),
    "output_len": ("workload.data.output_len",),
    "dataset": ("workload.data.dataset",),
    "gpu_type": (f"{_XPU}.type",),
    "gpu_model": (f"{_XPU}.model",),
    "total_count": (f"{_XPU}.total_count",),
    "count_per_node": (f"{_XPU}.count_per_node",),
    "driver_version": ("workload.hardware.driver_version",),
    "framework": ("model_executor.framework.name",),
    "framework_version": ("model_executor.framework.version",),
    "dp_replicate": (f"{_PLAN}.dp_replicate",),
    "dp_shard": (f"{_PLAN}.dp_shard",),
    "tp": (f"{_PLAN}.tp",),
    "pp": (f"{_PLAN}.pp",),
    "cp": (f"{_PLAN}.cp",),
    "ep": (f"{_PLAN}.ep",),
    "pp_microbatches": (f"{_PLAN}.pp_mb",),
    "communication_library": (f"{_LIBRARY}.name",),
    "communication_library_version": (f"{_LIBRARY}.version",),
}
"""Name of an accessor -> normalised keys that may hold its value, the first one given wins."""

COUNTS = frozenset(
    {
        "epochs",
        "iteration",
        *_ARCHITECTURE,
        "batch_size",
        "seq_len",
        "input_len",
        "output_len",
        "total_count",
        "count_per_node",
        "dp_replicate",
        "dp_shard",
        "tp",
        "pp",
        "cp",
        "ep",
        "pp_microbatches",
    }
)
"""Accessors whose value is a positive whole number."""

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
        return as_count(self.values.get(self.key_of(field)))

    def _text(self, field: str) -> str | None:
        key = self.key_of(field)
        value = self.values.get(key)
        if isinstance(value, (int, float)) and key in self.places:
            return self.places[key][2]  # 2.20 is a version, not 2.2
        return as_text(value)

    @property
    def phase(self) -> Phase | None:
        """Phase of the workload that was run."""
        return _PHASES.get((self._text("phase") or "").lower())

    @property
    def moe(self) -> bool | None:
        """Whether the model is a mixture of experts."""
        value = self.values.get(self.key_of("moe"))
        return value if isinstance(value, bool) else _TRUTH.get(str(value).lower())

    @property
    def granularity(self) -> str | None:
        """Unit of work of one iteration of the workload: model_fwd_bwd_pass, request, …."""
        return self._text("granularity")

    @property
    def model_family(self) -> str | None:
        """Model, as named in the card."""
        return self._text("model_family")

    @property
    def precision(self) -> str | None:
        """Number format of the computation."""
        return self._text("precision")

    @property
    def iteration(self) -> int | None:
        """Steps of the whole job, not of the trace."""
        return self.count("iteration")

    @property
    def num_params(self) -> int | None:
        """Parameters of the model."""
        return self.count("num_params")

    @property
    def num_params_active(self) -> int | None:
        """Parameters that one token uses."""
        return self.count("num_params_active")

    @property
    def num_params_embedding(self) -> int | None:
        """Parameters of the embeddings."""
        return self.count("num_params_embedding")

    @property
    def num_layers(self) -> int | None:
        """Layers of the model."""
        return self.count("num_layers")

    @property
    def num_heads(self) -> int | None:
        """Attention heads of a layer."""
        return self.count("num_heads")

    @property
    def head_dim(self) -> int | None:
        """Width of one attention head."""
        return self.count("head_dim")

    @property
    def batch_size(self) -> int | None:
        """Sequences a step, of a rank or of the job: see ``batch_size_scope``."""
        return self.count("batch_size")

    @property
    def batch_size_scope(self) -> str | None:
        """``global`` for a batch size of the whole job, None where the card does not say."""
        text = self._text("batch_size_scope")
        return None if text is None else text.lower()

    @property
    def seq_len(self) -> int | None:
        """Tokens a sequence."""
        return self.count("seq_len")

    @property
    def input_len(self) -> int | None:
        """Prompt tokens a request."""
        return self.count("input_len")

    @property
    def output_len(self) -> int | None:
        """Generated tokens a request."""
        return self.count("output_len")

    @property
    def dataset(self) -> str | None:
        """Name of the data set."""
        return self._text("dataset")

    @property
    def gpu_type(self) -> str | None:
        """GPU or TPU."""
        return self._text("gpu_type")

    @property
    def gpu_model(self) -> str | None:
        """Device model as the card spells it: nvidia_a100_40gb."""
        return self._text("gpu_model")

    @property
    def total_count(self) -> int | None:
        """Devices of the job."""
        return self.count("total_count")

    @property
    def count_per_node(self) -> int | None:
        """Devices of one node."""
        return self.count("count_per_node")

    @property
    def driver_version(self) -> str | None:
        """Driver, or often the CUDA version, as written."""
        return self._text("driver_version")

    @property
    def framework(self) -> str | None:
        """Name of the framework: torchtitan, vllm, …, sometimes with a version."""
        return self._text("framework")

    @property
    def framework_version(self) -> str | None:
        """Version of the framework, as written."""
        return self._text("framework_version")

    @property
    def dp_replicate(self) -> int | None:
        """Degree of replicating data parallelism."""
        return self.count("dp_replicate")

    @property
    def dp_shard(self) -> int | None:
        """Degree of sharded data parallelism."""
        return self.count("dp_shard")

    @property
    def tp(self) -> int | None:
        """Degree of tensor parallelism."""
        return self.count("tp")

    @property
    def pp(self) -> int | None:
        """Degree of pipeline parallelism."""
        return self.count("pp")

    @property
    def cp(self) -> int | None:
        """Degree of context parallelism."""
        return self.count("cp")

    @property
    def ep(self) -> int | None:
        """Degree of expert parallelism."""
        return self.count("ep")

    @property
    def pp_microbatches(self) -> int | None:
        """The card's ``pp_mb``: micro-batches of a pipeline step."""
        return self.count("pp_microbatches")

    @property
    def communication_library(self) -> str | None:
        """NCCL, RCCL, gloo, …, as written."""
        return self._text("communication_library")

    @property
    def communication_library_version(self) -> str | None:
        """Version of the communication library, as written."""
        return self._text("communication_library_version")

    @property
    def traces(self) -> tuple[str, ...]:
        """Kinds of trace that the card lists, by their current names."""
        listed_traces = self.values.get("metric_source.traces")
        if not isinstance(listed_traces, tuple):
            listed_traces = (listed_traces,)
        names = [str(item).lower() for item in listed_traces if item is not None]
        return tuple(_TRACE_ALIASES.get(name, name) for name in names)


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
