"""Files of training runs: configuration, epochs, steps, logs, and how a run ended."""

from __future__ import annotations

import re
from typing import Final

from ccltui.parsers.format import (
    Format,
    Priority,
    json_keys,
    json_name,
    text_search,
    text_start,
    text_stem,
)

_RUN_COMPLETE = re.compile(
    r"(?:\[Rank \d+\] )?RUN_COMPLETE [^\n]*\bworld_size="
    r"|world_size=\d+.*\b(?:tokens_per_sec|total_wall_time_sec)=",
    re.DOTALL,
)
_STEP_LINE = re.compile(
    r"""
      \bstep:\s*\d+\s+loss:                          # torchtitan
    | \biteration\s+\d+\s*/\s*(?:\d+|infinity)\s*\|  # Megatron
    | \bglobal_step=\d+,\s*RunningAvgSamplesPerSec=   # DeepSpeed
    | \bstep=\d+,\ skipped=\d+,\ lr= | \bComm\.\ Op\s{2,}Message\ Size\s{2,}Count
    | \[titan\]
    | \bEpoch\s\d+\sfinished\.\sAvg\sLoss:
    | \btrain_step_timing\ in\ s[:=]                  # NeMo
    | \{'(?:loss|train_runtime)':\ '?-?[\dni]         # Trainer of Hugging Face
    | \biteration:\ \d+\ /\ \d+\ \|                   # nanotron
    | \d/\d+,\ SamplesPerSec=                         # DeepSpeed to 0.6
    # other programs: a counter of steps, a loss, and a time
    | (?:^|[\s|\[])(?:global_)?(?:[Ss]tep|[Ii]ter(?:ation)?)(?:\ at)?[\s:=\#\[(]{0,6}\d+\b
      [^\n]{0,200}?\b\w{0,10}[Ll]oss\b[\s:=]{1,4}\d
    | \bEpoch(?::|\(train\))\ {0,3}\[\d+\]\s{0,2}\[\ {0,6}\d+/\d+\][^\n]{0,300}?\b[Ll]oss\b
    | \bepoch\ \d+:?\ +\d+\ /\ \d+\ loss=                # fairseq
    | \btraining\ it\ \d+/\d+\ of\ epoch\ \d             # DLRM
    | \b(?:step|iter(?:ation)?)[\s:=\#]{0,3}\d+\b[^\n]{0,250}?\d\ ?(?:ms|s|sec)/(?:step|iter)\b
    | \b(?:Epoch|[Tt]rain(?:ing)?)\b[^|\n]{0,40}\|[^|\n]{0,200}\|\ *\d+/\d+
      \ \[[\d:]+<[^,\n]{1,20},\ *\d                # bars of Lightning
    | \btime\ \(ms\)\ \|\ (?:forward|fwd|optimizer)_?\w{0,20}:\ \d
    | \(min,\ max\)\ time\ across\ ranks\ \(ms\):
    | :::MLLOG\ \{                                    # MLPerf
    """,
    re.VERBOSE,
)
_WATCHDOG: Final = re.compile(
    r"Watchdog caught collective operation timeout|[Ll]ast enqueued (?:NCCL )?work:"
    r"|failed to pass monitoredBarrier|without making progress in monitoring enqueued"
)
_WATCHDOG_WORDS: Final = ("Watchdog caught", "ast enqueued", "monitoredBarrier", "without making")
_STEP_WORDS: Final = (
    *("step:", "iteration", "[titan]", "finished."),
    *("RunningAvgSamplesPerSec", "skipped=", "Comm. Op", "train_step_timing", ":::MLLOG {"),
    *("{'loss': ", "{'train_runtime': ", "loss", "Loss", "/step", "/iter", "it/s", "s/it"),
    *("time (ms) |", "SamplesPerSec=", "time across ranks", "training it "),
)

PROFILE_SUMMARY: Final = Format(
    kind="profile_summary",
    description="a summary of a profile that a script of the run wrote",
    sniff=(json_keys("likely_bottleneck"), json_keys("nvtx_top5")),
)
TRAINING_METRICS: Final = Format(
    kind="training_metrics",
    description="epochs of a training run",
    sniff=(
        json_keys("schema_version", "epochs"),
        json_keys("train_time_per_epoch"),
        json_name("training_metrics"),
    ),
    has_own_metrics=True,
)
STEP_LOG: Final = Format(
    kind="step_log",
    description="one JSON object for each step",
    sniff=(json_keys("step", "step_time_sec"), json_name("training_steps")),
    has_own_metrics=True,
    read_by_line=True,
)
LAUNCHER_METADATA: Final = Format(
    kind="launcher_metadata",
    description="switches and environment with which a run was started",
    sniff=(
        json_keys("rank0_host"),
        json_keys("nccl_env"),
        json_name("launcher_metadata"),
    ),
)
RUN_METADATA: Final = Format(
    kind="run_metadata",
    description="manifests, counts of devices, tokens a step",
    sniff=(
        json_keys("tokens_per_step"),
        json_name("run_metadata", "upload_manifest"),
        text_stem("gpu_count"),
    ),
)
RUN_COMPLETE: Final = Format(
    kind="run_complete",
    description="the mark that a run ended by itself",
    # At the start only: a log of the run may end with the same line.
    sniff=(text_start(_RUN_COMPLETE, 4096), text_stem("run_complete")),
)
TRAINING_LOG: Final = Format(
    kind="training_log",
    description="step lines of a training program",
    sniff=(
        text_search(_STEP_LINE, Priority.TEXT_LINES, words=_STEP_WORDS),
        json_keys("log_history", "global_step"),  # trainer_state.json of Hugging Face
    ),
    has_own_metrics=True,
    read_by_line=True,
)
WATCHDOG_LOG: Final = Format(
    kind="watchdog_log",
    description="a log in which the watchdog of a process group gave up",
    sniff=(text_search(_WATCHDOG, Priority.TEXT_LINES, words=_WATCHDOG_WORDS),),
    has_own_metrics=True,
    read_by_line=True,
)
