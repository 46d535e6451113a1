"""``ccltui card``: write a draft of a workload card, and check one.

A card is checked by itself, against the traces, and against the configuration of the job.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import yaml
from msgspec import Struct, structs

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, load_job
from ccltui.metrics.card.check_and_draft import check_config, contradictions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import listed, printable, safe_text
from ccltui.parsers.side.workload_card import known_keys
from ccltui.report.json_document import SCHEMA_VERSION
from ccltui.report.output import require_target, write_report

if TYPE_CHECKING:
    from ccltui.metrics.card.check_and_draft import Fact, Value
    from ccltui.parsers.job import Job
    from ccltui.parsers.runs.run_records import TrainConfig
    from ccltui.parsers.side.workload_card import Card

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]*")


_LAYOUT: Final = """
# description: one sentence; text with a colon needs quotes
# hf_url: page of the model
workload:
  model:
    # phase: training, inference or serving
    # moe: true for a mixture of experts, else false
    # granularity: model_fwd_bwd_pass, model_fwd, request, …
    # model_family: llama-3.1-8b
    # precision: bf16, fp16, fp32, fp8
    # iteration: steps of the whole job, not of the trace
    model_arch:
      # num_params: parameters; mfu needs them
      # num_params_active: parameters that one token uses, if experts are chosen
      # num_params_embedding: parameters of the embeddings; mfu needs them
      # num_layers: layers; mfu needs them
      # num_heads: attention heads; mfu needs them
      # head_dim: width of a head; mfu needs it
  data:
    # batch_size: sequences a step; throughput needs them
    # batch_size_scope: global when batch_size is that of the whole job; without: of a rank
    # seq_len: tokens a sequence; throughput needs them
    # dataset: c4
  hardware:
    network_topo:
      # topology: slingshot, fat-tree, …
      # bandwidth_gbps: [between nodes, inside a node], Gbit/s of a device; link_utilization needs them
    xpu_spec:
      # type (gpu_type): GPU or TPU
      # model (gpu_model): nvidia_a100_40gb; mfu needs it
      # total_count: devices of the job
      # count_per_node: devices of a node
    # driver_version: of the device's driver
Model-executor:
  framework:
    # name (framework): torchtitan, megatron-lm, vllm, …
    # version (framework_version): of the framework
  model_plan_parallelization:
    # dp_replicate: degree of replicated data parallelism
    # dp_shard: degree of sharded data parallelism
    # tp: degree of tensor parallelism
    # pp: degree of pipeline parallelism
    # cp: degree of context parallelism
    # ep: degree of expert parallelism
    # pp_mb (pp_microbatches): micro-batches of a pipeline step
  communication_library:
    # name (communication_library): NCCL, RCCL, gloo, …
    # version (communication_library_version): in quotes: "2.20" is no number
metric_source:
  # traces: kineto_trace, torch_et, nsys
"""  # noqa: E501  (each key is one line)
"""A line of each key and its meaning, with the field that it sets where that has another name."""
_KEY: Final = re.compile(r"(?P<indent> *)# (?P<key>\w+)(?: \((?P<field>\w+)\))?: (?P<meaning>.+)")


class Line(Struct, frozen=True):
    """One line of a card: a key that contains keys, or one that sets a field."""

    indent: str
    key: str
    field: str = ""
    meaning: str = ""


def _line(text: str) -> Line:
    found = _KEY.fullmatch(text)
    if found is None:
        key = text.strip(" :")
        return Line(text[: text.index(key)], key)
    key = found["key"]
    return Line(found["indent"], key, found["field"] or key, found["meaning"])


LAYOUT: Final = tuple(map(_line, _LAYOUT.strip().splitlines()))
"""The lines of a card in order."""


def card_text(facts: Mapping[str, Fact]) -> bytes:
    """Write a card in UTF-8: known values with their source, other fields commented out."""
    head = (
        "# Workload card. A line that is commented out is not known yet: fill it in where it\n"
        "# applies, and check the card with: ccltui card lint\n"
        "version: 1\n"
    )
    return (head + "".join(f"{line}\n" for line in _lines(facts))).encode()


def _lines(facts: Mapping[str, Fact]) -> Iterator[str]:
    for line in LAYOUT:
        if not line.field:
            yield f"{line.indent}{line.key}:"
        elif line.field in facts:
            fact = facts[line.field]
            yield f"{line.indent}{line.key}: {_yaml(fact.value)}  # {safe_text(fact.source)}"
        else:
            yield f"{line.indent}# {line.key}:  # {line.meaning}"


def _yaml(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    plain = _PLAIN.fullmatch(value) and isinstance(yaml.safe_load(value), str)
    # Without unprintable characters a quoted JSON string is valid YAML.
    return value if plain else json.dumps(printable(value), ensure_ascii=False)


_USED: Final = {
    "throughput_tokens": ("batch_size", "seq_len"),
    "mfu": ("num_params", "num_params_embedding", "num_layers", "num_heads", "head_dim"),
}
"""Metric -> fields of the card without which it is unavailable."""


class Complaint(Struct, frozen=True):
    """One problem of a card; ``line`` is the line in the card, None if not a single one."""

    level: Literal["error", "warning"]
    line: int | None
    message: str


def lint(card: Card, job: Job | None, config: TrainConfig | None) -> tuple[Complaint, ...]:
    """Check a card; return complaints, errors first, each group in the order of the checks.

    Contradictions and unusable values are errors; unknown keys and fields that metrics need are
    warnings. Raises ConfigError for a configuration with a value of the wrong type.
    """
    found = [*_values(card), *_contradictions(card, job, config), *_unknown(card), *_lacking(card)]
    return tuple(sorted(found, key=lambda complaint: complaint.level))


def _values(card: Card) -> Iterator[Complaint]:
    for note in card.notes:
        if note.code != "card_unknown_keys":
            level: Literal["error", "warning"] = "error" if note.code == "card_value" else "warning"
            yield Complaint(level, None, note.message)


def _contradictions(card: Card, job: Job | None, config: TrainConfig | None) -> Iterator[Complaint]:
    ranks, world_size = ((), None) if job is None else (job.ranks, job.world_size)
    for sentence in contradictions(card, ranks, world_size):
        yield Complaint("error", None, sentence)
    if config is not None:
        for sentence in check_config(card, config, world_size):
            yield Complaint("error", None, sentence)


def _unknown(card: Card) -> Iterator[Complaint]:
    known = known_keys()
    for key in card.unknown_keys:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield Complaint("warning", card.line(key), f"{printable(key)} is not a known key{hint}")


def _is_stated(card: Card, field: str) -> bool:
    """True for a usable value and for an unusable one, which has an error of its own."""
    return getattr(card, field) is not None or card.values.get(card.key_of(field)) is not None


def _lacking(card: Card) -> Iterator[Complaint]:
    for metric, fields in _USED.items():
        absent = [field for field in fields if not _is_stated(card, field)]
        if absent:
            verb = "is" if len(absent) == 1 else "are"
            message = f"{listed(absent)} {verb} not stated: no {metric}"
            yield Complaint("warning", None, message)


PROG: Final = "ccltui card"
_INIT_DESCRIPTION = """\
Print a workload card with the values that the traces in DIR and a train_config.toml state, each
with its source; unknown values are left as comments. -o writes it to a file that does not exist
yet: a card is never overwritten."""
_LINT_DESCRIPTION = """\
Check a workload card: values of the wrong type, unknown keys, contradictions within the card,
with the traces and with the train_config.toml of the job. A directory is searched for its card,
and its traces are read; a card alone is checked by itself."""
_LINT_EPILOG = "The exit status is 4 when there is an error; warnings do not change it."
_CONFIG_HELP = (
    "configuration of the job: the TOML of torchtitan until 0.2; default: the train_config.toml "
    "beside the traces, if there is one"
)
_CONFIG_NAME: Final = "train_config.toml"


def init_parser() -> args.Parser:
    """Parser of the arguments of ``ccltui card init``."""
    usage = f"{PROG} init [DIR] [--config FILE] [options]"
    result = args.of_verb("card init", _INIT_DESCRIPTION, usage=usage)
    result.add_argument("trace", nargs="?", metavar="DIR", help="trace directory, or one file")
    result.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
    result.add_argument(
        "-o", "--output", metavar="FILE", help="write to FILE, which must not exist"
    )
    return args.completed(result, args.add_capture, args.add_loading)


_LINT_FORMATS = ("text", "json")


def lint_parser() -> args.Parser:
    """Parser of the arguments of ``ccltui card lint``."""
    usage = f"{PROG} lint CARD|DIR [--config FILE] [--traces DIR] [options]"
    result = args.of_verb("card lint", _LINT_DESCRIPTION, _LINT_EPILOG, usage)
    result.add_argument("card", metavar="CARD|DIR", help="a card, or the directory of one")
    result.add_argument("--config", type=Path, metavar="FILE", help=_CONFIG_HELP)
    result.add_argument("--traces", metavar="DIR", help="traces that CARD describes")
    args.add_output(result, _LINT_FORMATS, "text")
    return args.completed(result, args.add_capture, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui card`` with its arguments and return the exit status."""
    commands: Mapping[str, Callable[[Sequence[str]], int]] = {"init": _init, "lint": _lint}
    command = commands.get(arguments[0]) if arguments else None
    if arguments and arguments[0] in ("-h", "--help"):
        parsers = (init_parser(), lint_parser())
        write_report("\n".join(one.format_help() for one in parsers).encode(), None)
        return exit_codes.OK
    if arguments and arguments[0] == "--version":
        init_parser().parse_args(arguments)  # prints it and exits
    if command is None:
        raise GrammarError(
            f"missing command: {PROG} init [DIR], or {PROG} lint CARD; each has --help"
        )
    return command(arguments[1:])


def _init(arguments: Sequence[str]) -> int:
    options = init_parser().parse_args(arguments)
    if options.trace is None and options.config is None:
        raise GrammarError("no source for the card: give a trace directory, --config FILE, or both")
    require_target(options.output)
    if options.output not in (None, "-") and Path(options.output).exists():
        raise GrammarError(f"{options.output} exists; a card is never overwritten")
    from ccltui.metrics.card.check_and_draft import draft  # noqa: PLC0415

    config = _config(options.config, options.trace)
    job = (
        None
        if options.trace is None
        else load_job(LoadOptions.of(options.trace, options), any_recording=True).job
    )
    write_report(card_text(draft(job, config)), options.output)
    return exit_codes.OK


def _lint(arguments: Sequence[str]) -> int:
    options = lint_parser().parse_args(arguments)
    args.settle_format(options, _LINT_FORMATS, "text")
    require_target(options.output)

    card, job = _card(options)
    config = _config(options.config, options.traces or options.card)
    complaints = lint(card, job, config)
    write = _json if options.format == "json" else _text
    write_report(write(card, complaints), options.output)
    errors = any(complaint.level == "error" for complaint in complaints)
    return exit_codes.GATE if errors else exit_codes.OK


def _card(options: argparse.Namespace) -> tuple[Card, Job | None]:
    """Card to check, and the job that it describes, None without traces."""
    from ccltui.parsers.errors import CardError  # noqa: PLC0415
    from ccltui.parsers.side.workload_card import read_card  # noqa: PLC0415

    is_directory = Path(options.card).is_dir()
    if is_directory and options.traces is not None:
        raise GrammarError("--traces is for a card file; a directory contains its traces")
    if not is_directory and options.traces is None:
        return read_card(Path(options.card)), None
    if not is_directory:
        card = read_card(Path(options.card))
        job = load_job(LoadOptions.of(options.traces, options), any_recording=True).job
        return card, structs.replace(job, card=card)
    job = load_job(LoadOptions.of(options.card, options), any_recording=True).job
    if job.card_problem is not None:
        raise CardError(job.card_problem)
    if job.card is None:
        message = f"no workload card; {PROG} init writes a draft"
        raise CardError(message, path=options.card)
    return job.card, job


def _config(path: Path | None, directory: str | None) -> TrainConfig | None:
    """Configuration at ``path``, else that in ``directory``, None where there is none."""
    from ccltui.parsers.runs.run_records import read_train_config  # noqa: PLC0415

    if path is None and directory is not None:
        beside = Path(directory) / _CONFIG_NAME
        path = beside if beside.is_file() else None
    return None if path is None else read_train_config(path)


def _text(card: Card, complaints: Sequence[Complaint]) -> bytes:
    from ccltui.report.text_layout import text_bytes  # noqa: PLC0415

    lines = []
    for complaint in complaints:
        place = card.path if complaint.line is None else f"{card.path}:{complaint.line}"
        lines.append(f"{place}: {complaint.level}: {complaint.message}")
    return text_bytes(lines or [f"{card.path}: no problems found"])


def _json(card: Card, complaints: Sequence[Complaint]) -> bytes:
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415  (orjson)

    found = [structs.asdict(complaint) for complaint in complaints]
    document = {"schema_version": SCHEMA_VERSION, "path": card.path, "complaints": found}
    return json_bytes(document, indent=True)
