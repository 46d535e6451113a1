"""Arguments of collective events as the profiler writes them, by metadata level."""

from __future__ import annotations

from typing import Any

from ccltui.demo.simulate import Activity, Call
from ccltui.demo.spec import Spec

Args = dict[str, Any]

LONGEST_LIST = 30
"""The profiler cuts longer lists of ranks or split sizes and ends them with dots."""

_CPU_TYPES = {"BFloat16": "c10::BFloat16", "Float": "float"}


def list_text(values: tuple[int, ...]) -> str:
    """Format a list as the profiler does: a string, cut after 30 entries."""
    if len(values) <= LONGEST_LIST:
        return str(list(values))
    return str(list(values[:LONGEST_LIST]))[:-1] + ", ...]"


def kernel_args(spec: Spec, call: Call, activity: Activity) -> Args:
    """Arguments of the kernel itself, after its launch parameters."""
    args = {"Collective name": activity.kind, **_message(call, activity), **_group(call)}
    if call.is_p2p:
        args |= {"Src Rank": call.members[0], "Dst Rank": call.members[1]}
    if spec.metadata != "no_seq":
        args["Seq"] = activity.seq
    if spec.metadata == "comms_id":
        args["Comms Id"] = call.group.comms_id
    return args


def param_args(spec: Spec, call: Call, activity: Activity) -> Args:
    """Arguments of ``record_param_comms``."""
    listed = activity.kind in ("allreduce", "send", "recv")
    dims = [call.in_elems]
    args = {
        "Collective name": activity.kind,
        **_message(call, activity),
        **_group(call),
        "Global rank start": call.group.ranks[0],
        "Global rank stride": (*call.group.ranks, call.group.ranks[0] + 1)[1] - call.group.ranks[0],
        "Rank": activity.rank,
        "Is asynchronized op": 1,
        "Input type": ["TensorList" if listed else _CPU_TYPES[call.dtype], "", "", "Scalar"],
        "Input Dims": [[dims] if listed else dims, [], [], []],
    }
    if call.is_p2p:
        args |= {"Src Rank": call.members[0], "Dst Rank": call.members[1]}
    if spec.metadata != "no_seq":
        args["Seq"] = activity.seq
    if spec.metadata == "comms_id":
        args["Comms Id"] = call.group.comms_id
    return args


def wait_args(spec: Spec, call: Call, activity: Activity) -> Args:
    """Arguments of the second ``record_param_comms`` of a call, written when it is awaited."""
    args = {
        "Collective name": "wait",
        "In msg nelems": 0,
        "Out msg nelems": 0,
        "dtype": "Byte",
        "Process Group Name": call.group.name,
        "Process Group Description": call.group.description,
        "Process Group Ranks": "[]",
        "Group size": 1,
        "In split size": "[]",
        "Out split size": "[]",
        "Rank": activity.rank,
        "Is asynchronized op": 0,
    }
    if spec.metadata != "no_seq":
        args["Seq"] = activity.seq
    return args


def operator_shapes(call: Call, operation: str) -> Args:
    """Inputs of the ``c10d`` operator; output buffers come first, as in its schema."""
    element = _CPU_TYPES[call.dtype]
    if operation == "allreduce":
        return {
            "Concrete Inputs": ["", "", "", "", "True", "-1"],
            "Input type": ["TensorList", "", "", "", "Scalar", "Scalar"],
            "Input Dims": [[[call.in_elems]], [], [], [], [], []],
        }
    if operation in ("send", "recv"):
        other = call.members[1 if operation == "send" else 0]
        return {
            "Concrete Inputs": ["", "", str(call.group.ranks.index(other)), "0"],
            "Input type": ["TensorList", "", "Scalar", "Scalar"],
            "Input Dims": [[[call.in_elems]], [], [], []],
        }
    return {
        "Concrete Inputs": ["", "", "", "False", "-1"],
        "Input type": [element, element, "", "Scalar", "Scalar"],
        "Input Dims": [[call.out_elems], [call.in_elems], [], [], []],
    }


def annotation_shapes(call: Call) -> Args:
    """Inputs of the ``nccl:`` annotation."""
    return {
        "Concrete Inputs": [""],
        "Input type": [_CPU_TYPES[call.dtype]],
        "Input Dims": [[call.in_elems]],
    }


def _message(call: Call, activity: Activity) -> Args:
    sent, received = activity.splits or ((), ())
    if call.operation == "all_to_allv" and not activity.splits:
        size = len(call.members)
        sent = received = (activity.in_elems // size,) * size
    return {
        "In msg nelems": activity.in_elems,
        "Out msg nelems": activity.out_elems,
        "Group size": len(call.group.ranks),
        "dtype": call.dtype,
        "In split size": list_text(sent),
        "Out split size": list_text(received),
    }


def _group(call: Call) -> Args:
    return {
        "Process Group Name": call.group.name,
        "Process Group Description": call.group.description,
        "Process Group Ranks": list_text(call.group.ranks),
    }
