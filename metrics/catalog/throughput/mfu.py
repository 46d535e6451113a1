"""Model FLOPs utilization: FLOPs that the model needs per second over the peak of the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.card.effective_config import origin_of
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import degree_conflicts
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.hardware import PEAK_OVERRIDE, peak_of
from ccltui.metrics.workload.job_steps import Batch, iterations_of
from ccltui.metrics.workload.token_rate import data_parallel, token_rate
from ccltui.parsers.discovery.run_settings import CONFIG_NAME

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_FIELDS: Final = (
    "num_params",
    "num_params_active",
    "num_params_embedding",
    "num_layers",
    "num_heads",
    "head_dim",
    "tied_embeddings",
    "activation_checkpoint",
    "precision",
    "gpu_model",
    "total_count",
    PEAK_OVERRIDE,
)
_TRUE: Final = frozenset({"true", "yes", "1"})
_TRAINING: Final = "6 (N_active - N_embedding) + 12 L H Q S a token"
_INFERENCE: Final = "2 (N_active - N_embedding) a token + 4 L H Q a pair of query and key"


class Model(Struct, frozen=True):
    """Parameters used in the matrix products of a token, and the size of attention."""

    params: int
    attention: int  # layers x heads x width of a head

    def train_flops(self, seq_len: int) -> int:
        """FLOPs of a token, forward and backward (PaLM, appendix B).

        Attention counts the full square, without a half for the causal mask; nothing counts twice.
        """
        return 6 * self.params + 12 * self.attention * seq_len

    def forward_flops(self, batch: Batch) -> int | None:
        """FLOPs of a forward pass, None where it does not state its tokens and lengths."""
        if batch.tokens is None or batch.pairs is None:
            return None
        return 2 * self.params * batch.tokens + 4 * self.attention * batch.pairs


@metric(
    unit="%",
    definition=(
        "Model FLOPs per token (PaLM, appendix B) times tokens per second, in percent of the "
        "dense peak of all devices in the precision of the model; for inference, of prefill or "
        "decode separately."
    ),
    needs=(
        "workload card or overrides: model architecture, precision, batch_size, seq_len",
        "step markers, or passes of vLLM",
        "a known device, or peak_tflops",
    ),
    facts=("step_of_work", "groups"),
    keys=(
        "mfu_pct",
        "hfu_pct",
        "flops_per_token",
        "tokens_per_s",
        "model_tflops_per_gpu",
        "peak_tflops_per_gpu",
        "peak_source",
        "total_count",
        "prefill_mfu_pct",
        "decode_mfu_pct",
        "formula",
        "provenance",
    ),
    label="model FLOPs utilization",
    higher_is_better=True,
    parameters={
        PEAK_OVERRIDE: "dense peak of one device in the model's precision, TFLOPS",
        "activation_checkpoint": "full or none: then hfu_pct is known too; else as in the "
        f"{CONFIG_NAME} of the directory",
        "tied_embeddings": "true where embedding and output head share their weights",
    },
)
def mfu(view: View) -> Result:
    """MFU of training from the card and step times; of inference from marked passes."""
    model = model_of(view)
    if view.card.text("phase") in ("inference", "serving"):
        return _inference(view, model)
    return _training(view, model)


def model_of(view: View) -> Model:
    """The model as the card states it. Refuses naming the fields that are missing."""
    card = view.card
    experts = card.value("moe") in (True, "true", "True")
    params = card.count("num_params_active") or (None if experts else card.count("num_params"))
    tied = card.text("tied_embeddings").lower() in _TRUE
    embedding = 0 if tied else card.number("num_params_embedding")
    values = {
        "num_params_active" if experts else "num_params": params,
        "num_params_embedding": embedding,
        "num_layers": card.count("num_layers"),
        "num_heads": card.count("num_heads"),
        "head_dim": card.count("head_dim"),
    }
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise view.card.lacking(missing)
    layers, heads, width = (values[name] or 0 for name in ("num_layers", "num_heads", "head_dim"))
    if not (params or 0) > (embedding or 0):
        text = f"num_params {params} is not above num_params_embedding {embedding}"
        raise refuse("card_invalid", text)
    return Model((params or 0) - (embedding or 0), layers * heads * width)


def _training(view: View, model: Model) -> Result:
    rate = token_rate(view)
    tokens_per_s = rate.tokens_per_s
    if not tokens_per_s:
        raise refuse("no_step_markers", "the steps take no time")
    devices, peak = _devices(view), peak_of(view)
    flops = model.train_flops(rate.seq_len)
    share = flops * tokens_per_s / (peak.tflops * 1e12 * devices)
    mode, said = _checkpointing(view)
    again = _RECOMPUTED.get(mode.lower())
    details: dict[str, Any] = {
        "mfu_pct": 100 * share,
        "hfu_pct": None if again is None else 100 * share * again,
        "flops_per_token": flops,
        "tokens_per_s": tokens_per_s,
        "model_tflops_per_gpu": flops * tokens_per_s / devices / 1e12,
        "peak_tflops_per_gpu": peak.tflops,
        "peak_source": peak.source,
        "total_count": devices,
        "prefill_mfu_pct": None,
        "decode_mfu_pct": None,
        "formula": _TRAINING,
        "provenance": {
            **rate.provenance,
            **view.card.provenance(*_FIELDS),
            **({"activation_checkpoint": said} if said else {}),
        },
    }
    return answer(
        mfu,
        view,
        details,
        source="card",
        basis={**rate.basis, "phase": "training", **_BASIS},
        reasons=rate.reasons,
        warnings=[*rate.warnings, *peak.notes],
    )


_RECOMPUTED: Final = {"none": 1.0, "off": 1.0, "full": 8 / 6}
"""FLOPs of the hardware over those of the model: full checkpointing runs forward once more."""


def _checkpointing(view: View) -> tuple[str, str]:
    """Mode of activation checkpointing and its source: the user, otherwise the files of the run."""
    given = view.card.text("activation_checkpoint")
    if given:
        return given, "override"
    for source in view.job.run_sources:
        if source.checkpointing:
            is_config = source.standing == "config"
            return source.checkpointing, CONFIG_NAME if is_config else origin_of(source)
    return "", ""


def _inference(view: View, model: Model) -> Result:
    """MFU of passes whose names state tokens and lengths, of prefill and decode separately."""
    devices, peak = _devices(view), peak_of(view)
    replicas = data_parallel(view) or 1
    shares: dict[str, float | None] = {}
    counts: dict[str, int] = {}
    for phase in ("prefill", "decode"):
        work = [
            (flops, one.dur_ns)
            for rank in view.ranks
            for one in iterations_of(rank)
            if one.batch.phase == phase and (flops := model.forward_flops(one.batch)) is not None
        ]
        possible = sum(ns for _, ns in work) * 1e-9 * peak.tflops * 1e12 * devices / replicas
        shares[phase] = 100 * sum(f for f, _ in work) / possible if possible else None
        counts[phase] = len(work)
    phase = "prefill" if shares["prefill"] is not None else "decode"
    if shares[phase] is None:
        raise refuse(
            "phase_mismatch",
            "the card is of inference, whose prefill and decode differ: only passes that name "
            "their tokens and lengths (execute_context_… of vLLM) tell the FLOPs of each",
        )
    details: dict[str, Any] = {
        **dict.fromkeys(mfu.keys),
        "mfu_pct": shares[phase],
        "prefill_mfu_pct": shares["prefill"],
        "decode_mfu_pct": shares["decode"],
        "peak_tflops_per_gpu": peak.tflops,
        "peak_source": peak.source,
        "total_count": devices,
        "formula": _INFERENCE,
        "provenance": view.card.provenance(*_FIELDS),
    }
    return answer(
        mfu,
        view,
        details,
        source="annotation",
        basis={"phase": phase, "passes": f"{counts[phase]} of {phase}", **_BASIS},
        reasons=degree_conflicts(view),
        warnings=list(peak.notes),
    )


def _devices(view: View) -> int:
    devices = view.card.number("total_count") or view.world_size
    if not devices:
        raise view.card.lacking(["total_count"])
    return devices


_BASIS: Final = {
    "peak": "dense, without structured sparsity",
    "attention": "the whole square, no half for the causal mask",
}


metric_cal = mfu.document_of
