"""Read files on the workers of dask.distributed: of this machine, of an address, or of Slurm."""

from __future__ import annotations

import contextlib
import logging
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from ccltui.index.index_file import index_planned, killed
from ccltui.index.index_state import FileRecord, IndexState
from ccltui.index.saved_results import reduce_job
from ccltui.index.slurm_jobs import site_options
from ccltui.index.work_division import (
    TASK_TEXT_BYTES,
    EngineError,
    EngineEvent,
    EngineOptions,
    Message,
    Work,
)
from ccltui.parsers.errors import internal_error
from ccltui.parsers.ingest.worker_pool import starting
from ccltui.parsers.machine_limits import workers_for

if TYPE_CHECKING:
    from distributed import Client, Future

_POLL_S: Final = 0.5
_CONNECT_S: Final = 30
_MOST_JOBS: Final = 64
_LEAST_MEMORY: Final = 1 << 30
_MEMORY_FACTOR: Final = 1.5
_WALLTIME: Final = "02:00:00"


class DaskEngine:
    """One task a file. A worker that dies costs its task, which the scheduler gives to another."""

    name = "dask"
    reduces = True

    def __init__(self, options: EngineOptions, address: str | None) -> None:
        """Use the scheduler at ``address``; None starts workers, by Slurm where a site is given."""
        self._options = options
        self._address = address

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Submit the largest files first; see `ccltui.index.work_division.Engine`."""
        pending = sorted(work.pending, key=lambda number: -work.plan.files[number].size_bytes)
        with self._client(work) as (client, told):
            yield Message(told)
            run = uuid.uuid4().hex[:8]
            directory = str(work.state.directory)
            futures: dict[Future, int] = {
                client.submit(index_planned, directory, n, key=f"ccltui-{run}-{n}"): n
                for n in pending
            }
            for future in _as_they_end(set(futures), cancelled):
                yield _record_of(future, work, futures[future])
            if not cancelled():
                reduction = client.submit(_reduce, directory, key=f"ccltui-{run}-reduce")
                list(_as_they_end({reduction}, cancelled))
                if reduction.status == "error":
                    raise EngineError(f"the reduction failed: {reduction.exception()}")
            else:
                client.cancel(list(futures), force=True)

    @contextlib.contextmanager
    def _client(self, work: Work) -> Iterator[tuple[Client, str]]:
        """Connect to workers, and end those that were started here."""
        try:
            import distributed  # noqa: PLC0415  (an extra)
        except ImportError as error:
            raise EngineError(
                "the engine dask needs the package distributed: pip install 'ccltui[dask]'"
            ) from error
        # Deaths of workers are reported by task; the log would tear the line of progress.
        for part in ("", ".nanny", ".scheduler", ".core"):
            logging.getLogger(f"distributed{part}").setLevel(logging.CRITICAL)
        with contextlib.ExitStack() as opened:
            if self._address is not None:
                target: Any = self._address
                told = f"uses the workers of {self._address}"
            else:
                cluster, told = self._cluster(work)
                target = opened.enter_context(cluster)
            try:
                client = opened.enter_context(distributed.Client(target, timeout=_CONNECT_S))
            except (OSError, ValueError) as error:
                raise EngineError(f"no scheduler at {self._address}: {error}") from error
            yield client, told

    def _cluster(self, work: Work) -> tuple[Any, str]:
        files = [work.plan.files[number] for number in work.pending]
        sizes = [(one.size_bytes, one.form) for one in files] or [(0, "none")]
        if self._options.site is not None:
            memory = max(int(max(one.peak_bytes for one in files) * _MEMORY_FACTOR), _LEAST_MEMORY)
            text_bytes = sum(one.text_bytes for one in files)
            return self._slurm_cluster(work.state, memory, len(sizes), text_bytes)
        from distributed import LocalCluster  # noqa: PLC0415  (an extra)

        workers = self._options.workers or workers_for(sizes)
        with starting():  # ctrl+c is for this process
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        return cluster, f"started {workers} dask workers on this machine"

    def _slurm_cluster(
        self, state: IndexState, memory: int, files: int, text_bytes: int
    ) -> tuple[Any, str]:
        try:
            from dask_jobqueue import SLURMCluster  # noqa: PLC0415  (an extra)
        except ImportError as error:
            raise EngineError(
                "dask on Slurm needs the package dask-jobqueue: pip install 'ccltui[dask]'"
            ) from error
        site = (*site_options(self._options.site or ""), *self._options.sbatch)
        # Starting a worker costs as much as reading some hundred MB.
        enough = min(_MOST_JOBS, max(-(-text_bytes // TASK_TEXT_BYTES), 1))
        most = min(self._options.workers or enough, files)
        cluster = SLURMCluster(
            cores=1,
            processes=1,
            nanny=False,  # doubles the start of a worker; Slurm gives another one instead
            job_script_prologue=["export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False"],
            memory=f"{memory >> 20}MiB",
            walltime=_WALLTIME,
            python=str(Path(sys.executable).absolute()),
            job_name=f"{state.name}-worker",
            job_extra_directives=list(site),
            log_directory=str(state.logs),
            scheduler_options={"dashboard_address": None},
        )
        cluster.adapt(minimum_jobs=0, maximum_jobs=most)
        return cluster, f"asks Slurm for up to {most} dask workers, as tasks need them"


def _as_they_end(waiting: set[Future], cancelled: Callable[[], bool]) -> Iterator[Future]:
    """Yield tasks as they end, until all have or the run is cancelled."""
    from distributed import wait  # noqa: PLC0415  (an extra)

    while waiting and not cancelled():
        with contextlib.suppress(TimeoutError):
            wait(list(waiting), timeout=_POLL_S, return_when="FIRST_COMPLETED")
        for future in [one for one in waiting if one.done()]:
            waiting.discard(future)
            yield future


def _record_of(future: Future, work: Work, number: int) -> FileRecord:
    """Return the record of an ended task; of one that killed its workers, a record of that."""
    planned = work.plan.files[number]
    if future.status == "finished":
        record = future.result()
        if isinstance(record, FileRecord):
            return record
    known = work.state.record(planned.key)
    if known is not None:
        return known
    error = future.exception() if future.status == "error" else None
    lost = killed(planned)
    if error is not None and type(error).__name__ != "KilledWorker":
        why = str(error) if isinstance(error, OSError) else internal_error(error)
        lost = structs.replace(lost, error=f"{planned.path}: {why}", attempts=1)
    work.state.write_record(lost)
    return lost


def _reduce(directory: str) -> None:
    """Match the ranks on a worker."""
    state = IndexState(Path(directory))
    for _ in reduce_job(state, state.plan()):
        pass
