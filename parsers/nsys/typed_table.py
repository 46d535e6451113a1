"""Typed tables of ``nsys stats`` text, and the names of reports and columns since 2019."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.window import COLUMN_UNITS_NS, Window

_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cuda_gpu_trace": "CUDA GPU Trace",
        "cuda_gpu_sum": "CUDA GPU Summary (Kernels/MemOps)",
        "cuda_gpu_kern_sum": "CUDA GPU Kernel Summary",
        "cuda_gpu_kern_gb_sum": "CUDA GPU Kernel/Grid/Block Summary",
        "cuda_gpu_mem_time_sum": "CUDA GPU MemOps Summary (by Time)",
        "cuda_gpu_mem_size_sum": "CUDA GPU MemOps Summary (by Size)",
        "cuda_api_sum": "CUDA API Summary",
        "cuda_api_trace": "CUDA API Trace",
        "cuda_api_gpu_sum": "CUDA Summary (API/Kernels/MemOps)",
        "cuda_kern_exec_sum": "CUDA Kernel Launch & Exec Time Summary",
        "cuda_kern_exec_trace": "CUDA Kernel Launch & Exec Time Trace",
        "nvtx_sum": "NVTX Range Summary",
        "nvtx_pushpop_sum": "NVTX Push/Pop Range Summary",
        "nvtx_pushpop_trace": "NVTX Push/Pop Range Trace",
        "nvtx_startend_sum": "NVTX Start/End Range Summary",
        "nvtx_kern_sum": "NVTX Range Kernel Summary",
        "nvtx_gpu_proj_trace": "NVTX GPU Projection Trace",
        "nvtx_gpu_proj_sum": "NVTX GPU Projection Summary",
        "osrt_sum": "OS Runtime Summary",
        "openmp_sum": "OpenMP Summary",
        "openacc_sum": "OpenACC Summary",
        "mpi_event_trace": "MPI Event Trace",
        "mpi_event_sum": "MPI Event Summary",
        "mpi_msg_size_sum": "MPI Message Size Summary",
        "network_congestion": "Network Devices Congestion",
        "nvvideo_api_sum": "NvVideo API Summary",
        "syscall_sum": "Syscall Summary",
        "um_sum": "Unified Memory Analysis Summary",
        "um_total_sum": "Unified Memory Totals Summary",
        "um_cpu_page_faults_sum": "Unified Memory CPU Page Faults Summary",
        "vulkan_api_sum": "Vulkan API Summary",
        "vulkan_api_trace": "Vulkan API Trace",
        "vulkan_marker_sum": "Vulkan Range Summary",
        "vulkan_gpu_marker_sum": "Vulkan GPU Range Summary",
        "opengl_khr_range_sum": "OpenGL KHR_debug Range Summary",
        "opengl_khr_gpu_range_sum": "OpenGL KHR_debug GPU Range Summary",
        "dx11_pix_sum": "DX11 PIX Range Summary",
        "dx12_pix_sum": "DX12 PIX Range Summary",
        "dx12_gpu_marker_sum": "DX12 GPU Command List PIX Ranges Summary",
        "ucx_sum": "UCX Summary",
        "wddm_queue_sum": "WDDM Queue Utilization Summary",
        "nccl_sum": "NCCL Summary",  # a recipe
        # rules of nsys analyze
        "cuda_memcpy_async": "CUDA Async Memcpy with Pageable Memory",
        "cuda_memcpy_sync": "CUDA Synchronous Memcpy",
        "cuda_memset_sync": "CUDA Synchronous Memset",
        "cuda_api_sync": "CUDA Synchronization APIs",
        "gpu_gaps": "GPU Gaps",
        "gpu_time_util": "GPU Time Utilization",
    }
)
"""Display title of each report whose columns are known."""

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gputrace": "cuda_gpu_trace",
        "gpusum": "cuda_gpu_sum",
        "gpukernsum": "cuda_gpu_kern_sum",
        "gpukerngbsum": "cuda_gpu_kern_gb_sum",
        "gpumemtimesum": "cuda_gpu_mem_time_sum",
        "gpumemsizesum": "cuda_gpu_mem_size_sum",
        "cudaapisum": "cuda_api_sum",
        "cudaapitrace": "cuda_api_trace",
        "apigpusum": "cuda_api_gpu_sum",
        "kernexecsum": "cuda_kern_exec_sum",
        "kernexectrace": "cuda_kern_exec_trace",
        "nvtxsum": "nvtx_sum",
        "nvtxppsum": "nvtx_pushpop_sum",
        "nvtxpptrace": "nvtx_pushpop_trace",
        "nvtxsesum": "nvtx_startend_sum",
        "nvtxkernsum": "nvtx_kern_sum",
        "nvtxgpuproj": "nvtx_gpu_proj_trace",
        "osrtsum": "osrt_sum",
        "openmpevtsum": "openmp_sum",
        "openaccsum": "openacc_sum",
        "vulkanapisum": "vulkan_api_sum",
        "vulkanapitrace": "vulkan_api_trace",
        "vulkanmarkerssum": "vulkan_marker_sum",
        "vulkangpumarkersum": "vulkan_gpu_marker_sum",
        "khrdebugsum": "opengl_khr_range_sum",
        "khrdebuggpusum": "opengl_khr_gpu_range_sum",
        "dx11pixsum": "dx11_pix_sum",
        "dx12pixsum": "dx12_pix_sum",
        "dx12gpumarkersum": "dx12_gpu_marker_sum",
        "wddmqueuesdetails": "wddm_queue_sum",
        "nvtxsssum": "nvtx_startend_sum",
        "unifiedmemory": "um_sum",
        "unifiedmemorytotals": "um_total_sum",
        "umcpupagefaults": "um_cpu_page_faults_sum",
        # Names in guides of compute clusters; no version of nsys has them.
        "gpu_kern_summary": "cuda_gpu_kern_sum",
        "gpu_kernel_summary": "cuda_gpu_kern_sum",
        "kernel_sum": "cuda_gpu_kern_sum",
    }
)
"""Current name of each report by its names in older versions and in guides."""

_STATISTICS_TITLES: Final[tuple[tuple[str, str, str], ...]] = (
    ("cuda api", "", "cuda_api_sum"),
    ("cuda kernel", "", "cuda_gpu_kern_sum"),
    ("cuda memory operation", "kib", "cuda_gpu_mem_size_sum"),
    ("cuda memory operation", "", "cuda_gpu_mem_time_sum"),
    ("operating system runtime", "", "osrt_sum"),
    ("os runtime", "", "osrt_sum"),
    ("nvtx push-pop", "", "nvtx_pushpop_sum"),
    ("nvtx", "", "nvtx_sum"),
)

TEXT_COLUMNS: Final = (
    "Name",
    "Operation",
    "Range",
    "Style",
    "Category",
    "Device",
    "SrcMemKd",
    "DstMemKd",
    "NVTX Range",
    "Kernel Name",
    "API Name",
    "API Function",
    "Thread Name",
    "Event",
    "GridXYZ",
    "BlockXYZ",
    "RangeStack",
    "NameTree",
    "Result",
    "File",
    "Min File",
    "Max File",
    "Text",
    *("Src Kind", "Dst Kind", "Memory Kind"),
)
INTEGER_COLUMNS: Final = (
    "Instances",
    "Num Calls",
    "Count",
    "QCount",
    "CorrId",
    *("GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ"),
    "Reg/Trd",
    *("Ctx", "GreenCtx", "Strm"),
    *("PID", "TID", "DevId", "T-Pri"),
    *("Row#", "Device ID", "Context ID", "Green Context ID", "Stream ID"),
    *("Lvl", "NumChild", "NumGPUOps", "RangeId", "ParentId"),
    *("NVTX Inst", "Kern Inst", "Range Instances", "Total GPU Ops"),
    *("Tag", "Rank", "PeerRank", "RootRank", "Size", "CollSendSize", "CollRecvSize"),
)
AVERAGE_COLUMNS: Final = (
    *("Avg", "Med", "StdDev"),
    *("Proj Avg", "Proj Med", "Proj StdDev"),
    *(f"{kind}{name}" for kind in "TAQK" for name in ("Avg", "Med", "StdDev")),
    *("Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"),
)
"""Averages, medians and deviations: printed with one decimal even in ns."""

TIME_COLUMNS: Final = (
    *("Total Time", "Avg", "Med", "Min", "Max", "StdDev"),
    *("Start", "Duration", "End", "DurChild", "DurNonChild"),
    *("Projected Start", "Projected Duration", "Orig Start", "Orig Duration"),
    *("Total Proj Time", "Total Range Time"),
    *("Proj Avg", "Proj Med", "Proj Min", "Proj Max", "Proj StdDev"),
    *(f"{kind}{name}" for kind in "TAQK" for name in ("Avg", "Med", "Min", "Max", "StdDev")),
    *("API Start", "API Dur", "Queue Start", "Queue Dur", "Kernel Start", "Kernel Dur"),
    "Total Dur",
)
SIZE_COLUMNS: Final = ("Total", "StcSMem", "DymSMem", "Bytes", "Throughput")
_PERCENT_COLUMNS: Final = ("Time", "In-Use")

_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "average": "Avg",
        "median": "Med",
        "minimum": "Min",
        "maximum": "Max",
        "standard deviation": "StdDev",
        "calls": "Num Calls",
        "operations": "Count",
        "thru": "Throughput",
        "stream": "Strm",
    }
)
_CANONICAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        name.lower(): name
        for name in (
            *TEXT_COLUMNS,
            *INTEGER_COLUMNS,
            *AVERAGE_COLUMNS,
            *TIME_COLUMNS,
            *SIZE_COLUMNS,
            *_PERCENT_COLUMNS,
        )
    }
    | dict(_ALIASES)
)
_HEADER = re.compile(r"^(?P<name>.*?)\s*\((?P<unit>[^()]{1,12})\)$")


def report_name(written: str) -> str:
    """Return the current name of a report: ``gpukernsum.py`` is ``cuda_gpu_kern_sum``.

    Unknown names are returned in lower case with underscores.
    """
    name = re.sub(r"[\s-]+", "_", written.strip().lower()).removesuffix(".py")
    return OLD_NAMES.get(name, name)


def report_title(report: str) -> str:
    """Return the title of a report as nsys prints it, its name if the title is unknown."""
    return _TITLES.get(report, report)


def report_of_statistics(title: str, unit: str) -> str:
    """Return the report of a 2019 title such as "CUDA API Statistics"; "" for other titles."""
    lower = title.lower()
    for start, needed_unit, report in _STATISTICS_TITLES:
        if lower.startswith(start) and (not needed_unit or unit.lower() == needed_unit):
            return report
    return ""


def report_of_file(name: str) -> str:
    """Return the report in the file name ``<base>_<report>[_<arg>].csv``, "" for other names."""
    stem = name.lower().rpartition("/")[2].rpartition(".")[0] or name.lower()
    best = ""
    for known in (*_TITLES, *OLD_NAMES):
        if re.search(rf"(?:^|[_.-]){re.escape(known)}(?:$|[_.])", stem) and len(known) > len(best):
            best = known
    return report_name(best) if best else ""


def report_of_columns(names: Sequence[str]) -> str:
    """Return the report that has these columns, "" if none does."""
    has = frozenset(names)
    for needed, report in _BY_COLUMNS:
        if has >= needed:
            return report
    return ""


_BY_COLUMNS: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (frozenset({"GrdX", "CorrId", "Name"}), "cuda_gpu_trace"),
    (frozenset({"Start", "Duration", "Device", "Name"}), "cuda_gpu_trace"),  # columns left out
    (frozenset({"Category", "Operation"}), "cuda_gpu_sum"),
    (frozenset({"Range", "Style", "Total Proj Time"}), "nvtx_gpu_proj_sum"),
    (frozenset({"Name", "Projected Start"}), "nvtx_gpu_proj_trace"),
    (frozenset({"NVTX Range", "Kernel Name"}), "nvtx_kern_sum"),
    (frozenset({"Style", "Range", "Instances"}), "nvtx_sum"),
    (frozenset({"Range", "Instances"}), "nvtx_pushpop_sum"),
    (frozenset({"Operation", "Total Time", "Count"}), "cuda_gpu_mem_time_sum"),
    (frozenset({"Operation", "Total", "Count"}), "cuda_gpu_mem_size_sum"),
    (frozenset({"Instances", "Total Time", "Name"}), "cuda_gpu_kern_sum"),
    (frozenset({"API Function", "Kernel Name"}), "cuda_kern_exec_trace"),
    (frozenset({"API Name", "Kernel Name"}), "cuda_kern_exec_sum"),
    (frozenset({"Start", "Duration", "Name", "Result"}), "cuda_api_trace"),
    (frozenset({"Event", "PeerRank"}), "mpi_event_trace"),
    (frozenset({"Text", "Count", "Total Time"}), "nccl_sum"),
    (frozenset({"Start", "Duration", "Src Kind", "API Name"}), "cuda_memcpy_sync"),
    (frozenset({"Start", "Duration", "Memory Kind", "API Name"}), "cuda_memset_sync"),
    (frozenset({"Start", "Duration", "PID", "TID", "API Name"}), "cuda_api_sync"),
    (frozenset({"Row#", "Start", "Duration", "In-Use"}), "gpu_time_util"),
    (frozenset({"Row#", "Start", "Duration", "Device ID"}), "gpu_gaps"),
)


def split_header(header: str) -> tuple[str, str]:
    """Split a header into current name and unit as written: ``Time(%)`` is ("Time", "%")."""
    text = " ".join(header.split())
    match = _HEADER.match(text)
    name, unit = (match["name"], match["unit"].strip()) if match else (text, "")
    return _CANONICAL.get(name.lower(), name), unit


def is_header(cells: Sequence[str]) -> bool:
    """Return whether cells are the header of a report: three or more, 60 %, are known columns."""
    if len(cells) < 3:
        return False
    known = sum(split_header(cell)[0].lower() in _CANONICAL for cell in cells)
    return known >= 3 and known * 10 >= len(cells) * 6


EXACT: Final = 0
CUT: Final = 1
"""The text was cut after the decimal mark: the digits shown are exact, never above the value."""
UNKNOWN: Final = 2
"""The text was cut inside the integer part: the value is unknown."""
MISSING: Final = 3
"""An empty cell."""

Format = Literal["column", "table", "csv", "tsv", "json", "none"]
NameSource = Literal["banner", "title", "file name", "columns", "none"]


class NumberColumn(Struct, frozen=True):
    """Numbers of one column, exactly as printed: ``mantissa / 10**decimals`` in ``unit``.

    ``mantissa`` is int64, ``state`` uint8 (EXACT, CUT, UNKNOWN, MISSING), both of one length.
    ``loses`` describes the precision that the output lacks (fractions, digits), "" if only the
    last digit is rounded.
    """

    name: str
    header: str
    unit: str
    mantissa: I64
    decimals: int
    state: npt.NDArray[np.uint8]
    loses: str = ""

    def __len__(self) -> int:
        return len(self.mantissa)

    @property
    def known(self) -> Bool:
        """Rows with a value, including cut ones."""
        return self.state <= CUT

    def floats(self) -> npt.NDArray[np.float64]:
        """Return values in ``unit``, NaN where unknown."""
        values = self.mantissa / 10.0**self.decimals
        return np.where(self.known, values, np.nan)

    def ns(self) -> I64:
        """Return values in ns, rounded to the nearest; -1 where unknown (see ``known``).

        Raises:
            TraceError: The unit is not a unit of time, or a time does not fit into 64 bits.
        """
        unit_ns = COLUMN_UNITS_NS.get(self.unit)
        if unit_ns is None:
            raise TraceError(self._why_no_time())
        scale = 10**self.decimals
        known = self.mantissa[self.known]
        largest = max(int(known.max(initial=0)), -int(known.min(initial=0)))
        if largest * unit_ns >= scale << 62:  # so that the sum of two fits into 64 bits
            raise TraceError(f"{self.header}: a time is longer than 146 years")
        if unit_ns % scale == 0:
            values = self.mantissa * (unit_ns // scale)
        else:
            values = np.rint(self.mantissa * (unit_ns / scale)).astype(np.int64)
        return np.where(self.known, values, -1)

    @property
    def step_ns(self) -> float:
        """One unit of the last printed digit in ns; 0 for columns that are no times."""
        return COLUMN_UNITS_NS.get(self.unit, 0) / 10.0**self.decimals

    def cell(self, row: int) -> str:
        """Return the number as text with a decimal point; "" where unknown."""
        if self.state[row] > CUT:
            return ""
        digits = f"{abs(int(self.mantissa[row])):0{self.decimals + 1}d}"
        sign = "-" if self.mantissa[row] < 0 else ""
        if not self.decimals:
            return sign + digits
        return f"{sign}{digits[: -self.decimals]}.{digits[-self.decimals :]}"

    def _why_no_time(self) -> str:
        if not self.unit:
            return f"the header of {self.name} names no unit (--nohdrunit): state it with --unit"
        return f"{self.header} is no time"


class TextColumn(Struct, frozen=True):
    """Texts of one column; ``cut`` (bool) marks those whose end is missing. "" is missing."""

    name: str
    header: str
    values: tuple[str, ...]
    cut: Bool
    unit: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def cell(self, row: int) -> str:
        """Return the text, with ``…`` where its end is missing."""
        return self.values[row] + ("…" if self.cut[row] else "")


Column = NumberColumn | TextColumn


class Provenance(Struct, frozen=True):
    """Origin of a table, read from its banner. ``window`` is the one given to nsys."""

    database: str = ""
    nsys_version: str = ""
    arguments: tuple[str, ...] = ()
    window: Window | None = None
    nvtx: str = ""
    command: str = ""
    """Shell command that filtered the table (``--output @grep …``); rows may be missing."""


NO_PROVENANCE: Final = Provenance()


class Section(Struct, frozen=True):
    """One report of a file: its table, or the reason that there is none (``absent``)."""

    report: str
    written_report: str
    name_source: NameSource
    title: str
    format: Format
    line: int
    columns: tuple[Column, ...] = ()
    provenance: Provenance = NO_PROVENANCE
    absent: str | None = None
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Column | None:
        """Return the first column of that name (without unit), None if there is none."""
        return next((column for column in self.columns if column.name == name), None)

    def number(self, name: str) -> NumberColumn:
        """Return a column of numbers. Raises TraceError if there is none of that name."""
        column = self.column(name)
        if not isinstance(column, NumberColumn):
            raise TraceError(f"{self.report} has no numbers named {name}", line=self.line)
        return column

    def text(self, name: str) -> TextColumn:
        """Return a column of texts. Raises TraceError if there is none of that name."""
        column = self.column(name)
        if not isinstance(column, TextColumn):
            raise TraceError(f"{self.report} has no texts named {name}", line=self.line)
        return column


class StatsText(Struct, frozen=True):
    """Every report of one file, in the order of the file; no section if it is no nsys output."""

    path: str
    sections: tuple[Section, ...]
    notes: tuple[Note, ...] = ()

    @property
    def tables(self) -> tuple[Section, ...]:
        """Sections with a table."""
        return tuple(section for section in self.sections if section.columns)

    def find(self, report: str) -> Section | None:
        """Return the first table of a report by current name, else its absent section, or None."""
        same = [section for section in self.sections if section.report == report]
        return next((section for section in same if section.columns), same[0] if same else None)
