"""Classify device work as communication, computation or copy, and recorded calls by type.

The type of a collective follows from the same names. Each distinct name is classified once. Only
the name of a communication library's kernel makes a kernel communication: a substring such as
"reduce" or "send" occurs in computation kernels too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, is_one_value
from ccltui.parsers.array_types import I8, I32, Bool
from ccltui.parsers.columns import Events, Group, RankTrace, Strings
from ccltui.parsers.communication_kernels import (
    LIBRARIES,
    ON_NCCL,
    bare_kernel_name,
    communication_kernel,
    operation_in,
)

COMM: Final = 0
COMP: Final = 1
MEM: Final = 2

GENERIC: Final = "Generic"
"""Type of a kernel of RCCL that performs all operations."""
TYPES: Final = (
    "AllReduce",
    "ReduceScatter",
    "AllGather",
    "Broadcast",
    "Reduce",
    "AllToAll",
    "SendRecv",  # a point-to-point kernel whose operation the file does not name
    "Send",
    "Recv",
    "Gather",
    "Scatter",
    "Barrier",
    GENERIC,
    "Other",
)
OTHER: Final = TYPES.index("Other")

_MEMORY_CATEGORIES = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_MTIA_COPY: Final = "dma_request"  # of a device whose kernels and copies share one category

_REDUCTION_DTYPE = re.compile(
    r"nccl(?:Dev)?Kernel_(?:AllReduce|ReduceScatter|Reduce)_(?:\w+_)?"
    r"(b?f(?:16|32|64)|[iu](?:8|16|32|64)|half|float|double|u?int(?:8|32|64)_t|__nv_bfloat16)"
    r"(?:_|\(|$)"
)
_KERNEL_DTYPES: Final = {
    "f16": "Half",
    "half": "Half",
    "bf16": "BFloat16",
    "__nv_bfloat16": "BFloat16",
    "f32": "Float",
    "float": "Float",
    "f64": "Double",
    "double": "Double",
    "i8": "Char",
    "int8_t": "Char",
    "u8": "Byte",
    "uint8_t": "Byte",
    "i32": "Int",
    "int32_t": "Int",
    "u32": "UInt32",
    "uint32_t": "UInt32",
    "i64": "Long",
    "int64_t": "Long",
    "u64": "UInt64",
    "uint64_t": "UInt64",
}

_NOT_A_CALL = frozenset({"wait", "init", "finalize", "startcoalescing", "endcoalescing"})

_NAMED_COMPUTE = re.compile(
    "gemm|matmul|attention|flash|fmha|cutlass|cublas|conv|sgemm|Cijk|nvjet", re.IGNORECASE
)


def is_collective_kernel(name: str) -> bool:
    """Return whether a kernel belongs to a communication library."""
    return communication_kernel(name) is not None


def is_named_compute(name: str) -> bool:
    """Return whether a kernel is in the narrow set of computation: matrix work, by its name."""
    return _NAMED_COMPUTE.search(name) is not None


def normalise(operation: str) -> str:
    """Return the bare name of an operation: ``allgather`` for ``_allgather_base``.

    Spellings of one operation have one bare name: that of ``all_gather_into_tensor`` is the same.
    """
    bare = operation.lower().replace("_", "").replace("-", "")
    for suffix in ("coalesced", "intotensor", "tensor", "base"):
        bare = bare.replace(suffix, "")
    return bare


def is_call(operation: str) -> bool:
    """Return whether a recorded operation is a collective, not a wait or set-up."""
    return normalise(operation) not in _NOT_A_CALL


def type_of_operation(operation: str) -> int:
    """Return the index into TYPES of an operation's name in any spelling of the profiler."""
    return TYPES.index(operation_in(normalise(operation)))


def type_of_kernel(name: str) -> int:
    """Return the index into TYPES of a collective kernel's name, else of "Other"."""
    known = communication_kernel(name)
    return TYPES.index(known.operation if known else operation_in(bare_kernel_name(name)))


def library_of_kernel(name: str) -> int:
    """Return the index into `LIBRARIES` of the library whose communicators a kernel uses.

    This is 0, NCCL, where the name does not tell: metadata then comes from PyTorch.
    """
    known = communication_kernel(name)
    return 0 if known is None or known.library in ON_NCCL else LIBRARIES.index(known.library)


def reduced_dtype(name: str) -> str:
    """Return the element type that the kernel of a reduction is compiled for, "" for all others.

    Kernels that only move data are compiled for bytes, whatever the type of the tensors.
    """
    found = _REDUCTION_DTYPE.match(name)
    return _KERNEL_DTYPES.get(found.group(1).lower(), "") if found else ""


def per_name(strings: Strings, names: I32, answer: Mapping[int, int], default: int) -> I8:
    """Map the name id of each event to its value in ``answer``, else ``default``; int8."""
    table = np.full(len(strings) + 1, default, np.int8)  # the last entry serves the id -1
    for name, value in answer.items():
        table[name] = value
    return table.take(names)


def is_one_of(kind: I8, types: Sequence[str]) -> Bool:
    """Return which kinds (indices into TYPES, -1 for none) are one of ``types``."""
    table = np.zeros(len(TYPES) + 1, np.bool_)  # the last entry serves the kind -1
    table[[TYPES.index(name) for name in types]] = True
    return table.take(kind)


def any_name(strings: Strings, names: I32, chosen: Sequence[int]) -> Bool:
    """Return which events have one of the name ids in ``chosen``."""
    table = np.zeros(len(strings) + 1, np.bool_)  # the last entry serves the id -1
    table[list(chosen)] = True
    return table.take(names)


def distinct(ids: I32) -> list[int]:
    """Return the distinct string ids in ascending order, without -1."""
    return [i for i in distinct_values(ids).tolist() if i >= 0]


FEW_TEXTS: Final = 512
"""Strings up to which all are looked at, once for all ranks that have the same."""
_SHORT_BYTES: Final = 1 << 18
"""Most bytes of these strings: those of 64 ranks that differ are kept with the process."""


def few_texts(strings: Strings) -> tuple[str, ...] | None:
    """Return the strings of a rank, the same object for all ranks with the same; None of many.

    What follows from them alone need not be found again for each rank: which names occur in a
    column of 10,000 rows takes longer to find than all else that is asked of them.
    """
    if len(strings) > FEW_TEXTS or strings.blob.nbytes > _SHORT_BYTES:
        return None
    return _texts(strings.blob.tobytes(), strings.offsets.tobytes())


@lru_cache(maxsize=64)
def _texts(blob: bytes, offsets: bytes) -> tuple[str, ...]:
    found = Strings(np.frombuffer(blob, np.uint8), np.frombuffer(offsets, np.int64))
    return tuple(found)


@lru_cache(maxsize=64)
def _classes_named(texts: tuple[str, ...]) -> I8:
    """Class of device work by its name alone, int8 [name]; the last entry serves the id -1."""
    named = [_class_named(text) for text in texts]
    return np.array([*named, COMP], np.int8)


def _class_named(text: str) -> int:
    if text == _MTIA_COPY:
        return MEM
    return COMM if is_collective_kernel(text) else COMP


def classes_of(trace: RankTrace, group: Group = "gpu") -> I8:
    """Return COMM, COMP or MEM for each row of the rank's ``gpu`` events, int8.

    ``group`` may be that of the device events with impossible times instead.

    Copies and fills are recognised by their category (on MTIA by their name). Work is
    communication where its metadata names a collective (also a copy between devices, which then
    executes the collective), or where its name is that of a communication kernel; every other
    kernel is computation.
    """
    gpu = trace.group(group)
    texts = few_texts(trace.strings)
    if texts is None:
        named = {i: _class_named(trace.text(i)) for i in distinct(gpu.name)}
        classes = per_name(trace.strings, gpu.name, named, COMP)
    else:
        classes = _classes_named(texts).take(gpu.name)
    memory = [i for i in distinct(gpu.category) if trace.text(i).lower() in _MEMORY_CATEGORIES]
    if memory:
        classes[any_name(trace.strings, gpu.category, memory)] = MEM
    np.copyto(classes, COMM, where=has_operation(trace, gpu))
    return classes


def has_operation(trace: RankTrace, events: Events) -> Bool:
    """Return which events have metadata that names a collective."""
    operations = trace.collective_args.op
    if is_one_value(operations):
        return (events.args >= 0) & bool(operations[0] >= 0)
    stated = np.append(operations >= 0, False)  # the last entry serves the id -1
    return stated.take(events.args)
