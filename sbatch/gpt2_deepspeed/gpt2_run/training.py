"""Train epochs: micro-steps, then validation."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from gpt.data import batches
from gpt2_run.clock import StepClock
from gpt2_run.engine import Engine
from gpt2_run.records import Epoch, Step, StepLog


@dataclass(frozen=True, slots=True)
class Place:
    """Rank and device of this process."""

    rank: int
    world: int
    device: torch.device

    def mean(self, total: torch.Tensor, count: int) -> float:
        """Return the mean over all ranks from their sums and counts."""
        held = torch.stack(
            [total.double(), torch.tensor(float(count), device=self.device).double()]
        )
        dist.all_reduce(held)
        return float((held[0] / held[1]).item())


@dataclass
class _Tally:
    """Sums of an epoch so far."""

    epoch: int
    loss: torch.Tensor
    times_s: list[float] = field(default_factory=list)
    loading_s: list[float] = field(default_factory=list)
    waiting: list[tuple[torch.Tensor, bool]] = field(default_factory=list)
    optimizer_steps: int = 0


@dataclass(frozen=True, slots=True)
class Trainer:
    """Training and validation with one engine."""

    options: argparse.Namespace
    place: Place
    engine: Engine
    log: StepLog

    @property
    def tokens_a_step(self) -> int:
        """Return the tokens of a micro-step on all ranks."""
        options = self.options
        return int(options.micro_batch_size_per_gpu * options.seq_len * self.place.world)

    def train(self, tokens: torch.Tensor, epoch: int) -> Epoch:
        """Train for an epoch, at most --max_train_steps micro-steps.

        Raises ValueError where there are too few tokens.
        """
        device = self.place.device
        tally = _Tally(epoch, torch.zeros((), device=device))
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        dist.barrier()
        clock, started = StepClock(device), time.perf_counter()
        for inputs, targets in self._loaded(tokens, tally):
            loss, stepped = self._micro_step(inputs, targets)
            clock.step()
            tally.loss += loss
            tally.waiting.append((loss, stepped))
            if stepped:
                tally.optimizer_steps += 1
                self._settle(clock, tally)
        self._settle(clock, tally)
        return self._told(tally, time.perf_counter() - started)

    def _micro_step(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Run a micro-step; return the loss, and whether the optimizer stepped."""
        with self._named("train/forward"):
            loss = self.engine.forward(inputs, targets)
        with self._named("train/backward"):
            self.engine.backward(loss)
        with self._named("train/step"):
            stepped = self.engine.step()
        return loss.detach(), stepped

    def _loaded(
        self, tokens: torch.Tensor, tally: _Tally
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield at most --max_train_steps batches on the device, and the loading time of each."""
        found = self._batches(tokens, self.options.seed + tally.epoch)
        left = self.options.max_train_steps
        while left != 0:
            began = time.perf_counter()
            pair = next(found, None)
            if pair is None:
                return
            inputs, targets = (one.to(self.place.device, non_blocking=True) for one in pair)
            tally.loading_s.append(time.perf_counter() - began)
            left -= 1
            yield inputs, targets

    def _batches(
        self, tokens: torch.Tensor, seed: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return batches(
            tokens,
            batch=self.options.micro_batch_size_per_gpu,
            length=self.options.seq_len,
            rank=self.place.rank,
            world=self.place.world,
            seed=seed,
        )

    def _settle(self, clock: StepClock, tally: _Tally) -> None:
        """Log the micro-steps of an optimizer step, and print them unless profiling."""
        first = len(tally.times_s) + 1
        times = clock.drain()
        tally.times_s += times
        steps = [
            Step(number, float(loss), seconds, self.tokens_a_step, tally.epoch + 1, stepped)
            for number, ((loss, stepped), seconds) in enumerate(
                zip(tally.waiting, times, strict=True), first
            )
        ]
        tally.waiting.clear()
        self.log.add(steps)
        if self.place.rank == 0 and steps and not self.options.profile_mode:
            last = steps[-1]
            rate = last.tokens / last.step_time_sec
            print(f"step: {last.step}  loss: {last.loss:.4f}  tokens/s: {rate:,.0f}", flush=True)

    def _told(self, tally: _Tally, wall_s: float) -> Epoch:
        steps, cuda = len(tally.times_s), self.place.device.type == "cuda"
        return Epoch(
            number=tally.epoch + 1,
            wall_s=wall_s,
            micro_steps=steps,
            optimizer_steps=tally.optimizer_steps,
            tokens=steps * self.tokens_a_step,
            train_loss=self.place.mean(tally.loss, steps),
            val_loss=None,
            step_times_s=tally.times_s,
            dataload_times_s=tally.loading_s,
            allocated_bytes=torch.cuda.max_memory_allocated() if cuda else None,
            reserved_bytes=torch.cuda.max_memory_reserved() if cuda else None,
        )

    def validate(self, tokens: torch.Tensor) -> float | None:
        """Return the mean validation loss over all ranks; None for --max_val_steps 0."""
        if self.options.max_val_steps == 0:
            return None
        device = self.place.device
        total, count = torch.zeros((), device=device), 0
        for inputs, targets in self._batches(tokens, self.options.seed):
            if count == self.options.max_val_steps:
                break
            with torch.no_grad(), self._named("val/forward"):
                total += self.engine.forward(inputs.to(device), targets.to(device))
            count += 1
        return self.place.mean(total, count)

    def _named(self, name: str) -> contextlib.AbstractContextManager[object]:
        """Return an NVTX range for Nsight Systems; without CUDA a context that does nothing."""
        if not self.options.profile_mode or self.place.device.type != "cuda":
            return contextlib.nullcontext()
        found: contextlib.AbstractContextManager[object] = torch.cuda.nvtx.range(name)
        return found
