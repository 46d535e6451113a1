"""A private, real Slurm: a controller, nodes with own host names, accounts, fake GPUs.

Everything lives below one directory and on free ports. A node runs in name spaces of its own
(processes, host name, mounts): it has a host name and an /etc/hosts that the machine does not
see, and whatever a job leaves behind ends with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import cluster_files as files
from daemons import Daemons, await_true, missing_programs, processes_with, reserve_ports

ACCOUNTING: Final = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
_NODE_INIT: Final = """\
mount --bind "$1" /etc/hosts && hostname "$2" || exit
slurmd -D -N "$2" &
wait
"""
_COMMAND_TIMEOUT_S: Final = 30
_MEMORY: Final = Path("/dev/shm")
_NEEDED_ROOM: Final = 1 << 30
"""Bytes that must be free in memory for a cluster to be there: one writes 0.12 GB."""


@contextlib.contextmanager
def private_directory() -> Iterator[Path]:
    """A folder with a short path, gone afterwards: names of sockets have 107 characters.

    In memory where that has room: the database waits for the disk at each of the tables that it
    makes, which is half of the time that a cluster takes to start. What a killed process leaves
    there the next run of the tests removes: nobody holds the lock of its folder. Scripts of jobs
    lie there, too, and are run.
    """
    in_memory = "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK)
    in_memory = in_memory and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    in_memory = in_memory and shutil.disk_usage(_MEMORY).free > _NEEDED_ROOM
    directory = Path(tempfile.mkdtemp(prefix="ccltui-slurm-", dir=_MEMORY if in_memory else None))
    held = os.open(directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(held)


class Cluster:
    """A running cluster; ``environment`` is what its clients need."""

    def __init__(self, directory: Path, *, nodes: int = 2, accounts: bool = True) -> None:
        self._reserved = reserve_ports(nodes + 3)
        ports = [one.getsockname()[1] for one in self._reserved]
        self.plan = files.Plan(
            directory,
            socket.gethostname().partition(".")[0],
            ports[-1],
            tuple(
                files.Node(f"node{number}", f"127.0.1.{number}", port)
                for number, port in enumerate(ports[:nodes], 1)
            ),
            first_job=_first_job(),
            database_ports=(ports[-2], ports[-3])
            if accounts and not missing_programs(ACCOUNTING)
            else None,
        )
        self.environment = _environment(self.plan.conf)
        self._daemons = Daemons(self.plan.logs, self.environment)

    @property
    def has_accounts(self) -> bool:
        """Whether wrong accounts are refused: needs slurmdbd and a database."""
        return self.plan.database_ports is not None

    def start(self) -> None:
        """Bring everything up. Raises ClusterError; then nothing is left running."""
        try:
            self._write()
            self._start_munge()
            if self.has_accounts:
                self._start_accounting()
            self._daemons.start("slurmctld", ["slurmctld", "-D", "-c"])
            for node in self.plan.nodes:
                self._start_node(node)
            await_true(self._all_idle, seconds=60, what="all nodes idle")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the cluster and of its jobs."""
        self._daemons.stop()
        for one in self._reserved:
            one.close()

    def run(
        self, *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a client of the cluster, as from a login node; never checked."""
        return subprocess.run(
            [str(part) for part in command],
            check=False,
            cwd=cwd,
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_COMMAND_TIMEOUT_S,
        )

    def processes_of_job(self, job: str) -> list[int]:
        """What runs of a job on any node, the daemon that watches over it aside."""
        return processes_with(f"SLURM_CONF={self.plan.conf}", f"SLURM_JOB_ID={job}")

    def _write(self) -> None:
        plan = self.plan
        for name in ("state", "log", "dev", *(f"spool/{node.name}" for node in plan.nodes)):
            (plan.directory / name).mkdir(parents=True)
        for above in (plan.directory, *plan.directory.parents):
            # The database runs as another user: it has to get through to its folder.
            if above.stat().st_uid == os.getuid() and above != Path("/"):
                above.chmod(above.stat().st_mode | stat.S_IXOTH)
        plan.conf.write_text(files.slurm_conf(plan))
        (plan.directory / "gres.conf").write_text(files.gres_conf(plan))
        (plan.directory / "cgroup.conf").write_text(files.cgroup_conf())
        (plan.directory / "hosts").write_text(
            files.hosts(plan, Path("/etc/hosts").read_text(encoding="utf-8"))
        )
        for number in range(plan.gpus_per_node):
            # The numbers of /dev/null: slurmd asks for no more than a character device.
            device = plan.directory / "dev" / f"nvidia{number}"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def _start_munge(self) -> None:
        directory = self.plan.directory
        key = directory / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        self._daemons.start(
            "munged",
            [
                *("munged", "--foreground", "--force", f"--key-file={key}"),
                f"--socket={self.plan.munge_socket}",
                f"--pid-file={directory}/munged.pid",
                f"--log-file={self.plan.logs}/munged.log",
                f"--seed-file={directory}/munge.seed",
            ],
        )
        self._await("munge", "-S", self.plan.munge_socket, "-n", seconds=20)

    def _start_node(self, node: files.Node) -> None:
        own = ["--mount", "--uts", "--pid", "--propagation", "private", "--mount-proc"]
        hosts = str(self.plan.directory / "hosts")
        script = ["bash", "-c", _NODE_INIT, "node", hosts, node.name]
        command = ["unshare", *own, "--fork", "--kill-child", *script]
        # Killing the first process of a name space ends all others there.
        self._daemons.start(node.name, command, polite=False)

    def _start_accounting(self) -> None:
        plan = self.plan
        assert plan.database_ports is not None
        data = plan.directory / "database"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        # A server that starts removes the temporary tables in its folder: in /tmp those of others.
        temporary = plan.directory / "database_tmp"
        temporary.mkdir()
        shutil.chown(temporary, "mysql", "mysql")
        self._checked(
            *("mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            f"--tmpdir={temporary}",
        )
        self._daemons.start(
            "mariadbd",
            [
                *("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={data}"),
                *(f"--socket={data}/sock", f"--pid-file={data}/pid", "--bind-address=127.0.0.1"),
                *(f"--port={plan.database_ports[0]}", "--innodb-buffer-pool-size=64M"),
                f"--tmpdir={temporary}",
                *("--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"),
                "--innodb-lock-wait-timeout=900",
            ],
        )
        client = ("mariadb", "--no-defaults", f"--socket={data}/sock", "--user=root", "-e")
        self._await(*client, "select 1", seconds=60)
        users = [f"slurm@'{host}'" for host in ("127.0.0.1", "localhost")]
        orders = [f"create user {user} identified by 'slurm'" for user in users]
        orders += [f"grant all on {files.DATABASE}.* to {user}" for user in users]
        self._checked(*client, "; ".join(orders))
        daemon_conf = plan.directory / "slurmdbd.conf"
        daemon_conf.touch(mode=0o600)
        daemon_conf.write_text(files.slurmdbd_conf(plan))
        self._daemons.start("slurmdbd", ["slurmdbd", "-D"])
        self._await("sacctmgr", "-n", "show", "cluster", seconds=60)
        self._add_accounts()

    def _add_accounts(self) -> None:
        add = ("sacctmgr", "-i", "add")
        accounts = f"{files.ACCOUNT},{files.OTHER_ACCOUNT}"
        self._checked(*add, "cluster", files.CLUSTER)
        self._checked(*add, "qos", ",".join(files.QOS))
        self._checked(
            *(*add, "account", accounts, f"Cluster={files.CLUSTER}"),
            *(f"QOS={','.join(files.QOS)}", f"DefaultQOS={files.QOS[0]}"),
        )
        default = f"DefaultAccount={files.ACCOUNT}"
        self._checked(*add, "user", "root", f"Account={accounts}", default)

    def _all_idle(self) -> bool:
        self._daemons.check_alive()
        told = self.run("sinfo", "-h", "-N", "-p", files.PARTITION, "-t", "idle", "-o", "%N")
        return set(told.stdout.split()) == {node.name for node in self.plan.nodes}

    def _await(self, *command: str | Path, seconds: float) -> None:
        def answers() -> bool:
            self._daemons.check_alive()
            return self.run(*command).returncode == 0

        await_true(answers, seconds=seconds, what=f"an answer to {command[0]}")

    def _checked(self, *command: str | Path) -> None:
        done = self.run(*command)
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")


def _first_job() -> int:
    """Jobs of clusters of parallel tests have different numbers: scripts make ports of them.

    Only the last three digits count there, and all tests together submit about a hundred jobs.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return 1 + 200 * (int(worker) % 5)


def _environment(conf: Path) -> dict[str, str]:
    """This process's environment without what another Slurm left in it.

    Jobs train by scripts that import what lies beside them, which the safe path that importing a
    command sets would forbid.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SACCT_"))
        and name != "PYTHONSAFEPATH"
    }
    path = os.pathsep.join([kept.get("PATH", ""), "/usr/sbin", "/sbin"])
    return {**kept, "PATH": path, "SLURM_CONF": str(conf)}
