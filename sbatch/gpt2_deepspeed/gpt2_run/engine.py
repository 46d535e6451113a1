"""Engines that compute and exchange gradients: DeepSpeed, or torch's data parallelism."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional


class Engine(Protocol):
    """Interface of an engine, which trains one micro-step at a time."""

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss, a scalar on the device."""

    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients of the loss; at a boundary they are exchanged."""

    def step(self) -> bool:
        """Return whether this micro-step ended with an optimizer step."""

    def save(self, folder: Path, tag: str) -> None:
        """Write a checkpoint to ``folder/tag``; every rank must call it."""


@dataclass(frozen=True, slots=True)
class About:
    """Description of an engine for ``training_metrics.json``."""

    precision: str
    deepspeed: bool
    zero_stage: int | None
    config: dict[str, Any] = field(default_factory=dict)
    config_path: str | None = None
    config_sha256: str | None = None


class WithLoss(nn.Module):
    """A model whose output is its loss, so that both engines can wrap it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean cross entropy of the next token."""
        logits = self.model(inputs)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make(
    options: argparse.Namespace, model: nn.Module, device: torch.device
) -> tuple[Engine, About]:
    """Create the chosen engine. Raises OSError or ValueError for an unusable config."""
    if options.plain_ddp:
        accumulate = options.grad_accum_steps
        return _Plain(WithLoss(model), device, options.lr, accumulate), About("fp32", False, None)
    return _deepspeed(options, WithLoss(model), device)


class _Plain:
    """DistributedDataParallel and AdamW in fp32."""

    def __init__(self, model: nn.Module, device: torch.device, lr: float, accumulate: int) -> None:
        ids = [device.index] if device.type == "cuda" else None
        self._model = nn.parallel.DistributedDataParallel(model.to(device), device_ids=ids)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=lr)
        self._accumulate = accumulate
        self._micro = 0

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self._micro += torch.is_grad_enabled()
        # What is decided in forward holds for the backward pass of the same micro-step.
        quiet: Callable[[], contextlib.AbstractContextManager[Any]] = (
            contextlib.nullcontext if self._at_boundary() else self._model.no_sync
        )
        with quiet():
            loss: torch.Tensor = self._model(inputs, targets)
        return loss

    def backward(self, loss: torch.Tensor) -> None:
        (loss / self._accumulate).backward()

    def step(self) -> bool:
        if not self._at_boundary():
            return False
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return True

    def save(self, folder: Path, tag: str) -> None:
        if torch.distributed.get_rank() == 0:
            (folder / tag).mkdir(parents=True, exist_ok=True)
            torch.save(self._model.module.model.state_dict(), folder / tag / "model.pt")

    def _at_boundary(self) -> bool:
        return self._micro % self._accumulate == 0


class _DeepSpeed:
    """DeepSpeed's engine; its config determines how gradients are exchanged."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self._engine(inputs, targets)
        return loss

    def backward(self, loss: torch.Tensor) -> None:
        self._engine.backward(loss)

    def step(self) -> bool:
        boundary = bool(self._engine.is_gradient_accumulation_boundary())
        self._engine.step()
        return boundary

    def save(self, folder: Path, tag: str) -> None:
        self._engine.save_checkpoint(str(folder), tag=tag)


def _deepspeed(
    options: argparse.Namespace, model: nn.Module, device: torch.device
) -> tuple[Engine, About]:
    import deepspeed  # noqa: PLC0415  (heavy, and absent where plain DDP was asked for)

    if options.deepspeed_config is None:
        raise ValueError("--deepspeed_config FILE is needed, or --plain_ddp")
    path: Path = options.deepspeed_config
    text = path.read_bytes()
    config = effective(json.loads(text), options, device)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=list(model.parameters()), config=config
    )
    about = About(
        precision="fp16_deepspeed" if config["fp16"]["enabled"] else "fp32",
        deepspeed=True,
        zero_stage=config.get("zero_optimization", {}).get("stage"),
        config=config,
        config_path=str(path),
        config_sha256=hashlib.sha256(text).hexdigest(),
    )
    return _DeepSpeed(engine), about


def effective(
    config: dict[str, Any], options: argparse.Namespace, device: torch.device
) -> dict[str, Any]:
    """Return the config with the settings of the command line; fp16 needs a GPU."""
    adam: dict[str, Any] = {"lr": options.lr}
    if device.type == "cpu":
        adam["torch_adam"] = True
    return {
        **config,
        "train_micro_batch_size_per_gpu": options.micro_batch_size_per_gpu,
        "gradient_accumulation_steps": options.grad_accum_steps,
        "optimizer": {"type": "AdamW", "params": adam},
        "fp16": {
            **config.get("fp16", {}),
            "enabled": bool(config.get("fp16", {}).get("enabled")) and device.type == "cuda",
        },
    }
