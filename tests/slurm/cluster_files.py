"""Every file of a private cluster's configuration, as text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

CLUSTER: Final = "ccltest"
PARTITION: Final = "gpu"
OTHER_PARTITION: Final = "extra"  # not the default
ACCOUNT: Final = "m1234"
OTHER_ACCOUNT: Final = "m5678"
QOS: Final = ("debug", "regular")
DATABASE: Final = "slurm_acct"


class Node(Struct, frozen=True):
    """A virtual node: a daemon with a host name, an address and a port of its own."""

    name: str
    address: str  # of the loopback network: names of two nodes never resolve to one address
    port: int


class Plan(Struct, frozen=True):
    """Where a cluster lives and what it pretends to have."""

    directory: Path
    host: str
    controller_port: int
    nodes: tuple[Node, ...]
    gpus_per_node: int = 4
    cpus_per_node: int = 128
    memory_mb: int = 16_000
    database_ports: tuple[int, int] | None = None  # mariadbd, slurmdbd; None: no accounting
    first_job: int = 1

    @property
    def conf(self) -> Path:
        """What SLURM_CONF has to name."""
        return self.directory / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Socket of the cluster's own munged."""
        return self.directory / "munge.sock"

    @property
    def logs(self) -> Path:
        """Where every daemon writes."""
        return self.directory / "log"


def slurm_conf(plan: Plan) -> str:
    """The ``slurm.conf`` of all daemons and clients."""
    directory = plan.directory
    lines = [
        f"ClusterName={CLUSTER}",
        f"SlurmctldHost={plan.host}(127.0.0.1)",
        f"SlurmctldPort={plan.controller_port}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={plan.munge_socket}",
        f"StateSaveLocation={directory}/state",
        f"SlurmdSpoolDir={directory}/spool/%n",
        f"SlurmctldPidFile={directory}/slurmctld.pid",
        f"SlurmdPidFile={directory}/spool/%n.pid",
        f"SlurmctldLogFile={plan.logs}/slurmctld.log",
        f"SlurmdLogFile={plan.logs}/slurmd.%n.log",
        # Neither cgroups nor an init system: processes are found by their parents.
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "GresTypes=gpu",
        # Two real cores may pose as a node of a hundred.
        "SlurmdParameters=config_overrides",
        "JobAcctGatherType=jobacct_gather/linux",
        "ReturnToService=2",
        "SlurmdTimeout=30",
        "InactiveLimit=0",
        "KillWait=2",
        # Finished jobs stay in the queue's memory, so that it can be asked how they ended.
        "MinJobAge=3600",
        "SchedulerParameters=bf_interval=1,sched_min_interval=10000,batch_sched_delay=1",
        "PriorityType=priority/basic",
        f"FirstJobId={plan.first_job}",
        *(_accounting(plan) if plan.database_ports else []),
        *(_node(plan, node) for node in plan.nodes),
        f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=24:00:00 State=UP",
        f"PartitionName={OTHER_PARTITION} Nodes=ALL Default=NO MaxTime=24:00:00 State=UP",
    ]
    return "\n".join(lines) + "\n"


def _accounting(plan: Plan) -> list[str]:
    assert plan.database_ports is not None
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={plan.database_ports[1]}",
        # Else clients look for the system's munged.
        f"AccountingStoragePass={plan.munge_socket}",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStorageEnforce=associations,qos",
    ]


def _node(plan: Plan, node: Node) -> str:
    return (
        f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address} Port={node.port} "
        f"CPUs={plan.cpus_per_node} RealMemory={plan.memory_mb} "
        f"Gres=gpu:a100:{plan.gpus_per_node} Feature=gpu,hbm80g State=UNKNOWN"
    )


def gres_conf(plan: Plan) -> str:
    """The GPUs of every node; only with device files does a job see CUDA_VISIBLE_DEVICES."""
    last = plan.gpus_per_node - 1
    numbers = f"[0-{last}]" if last else "0"
    names = ",".join(node.name for node in plan.nodes)
    return f"NodeName={names} Name=gpu Type=a100 File={plan.directory}/dev/nvidia{numbers}\n"


def cgroup_conf() -> str:
    """Nothing is constrained."""
    return "CgroupAutomount=no\nConstrainCores=no\nConstrainDevices=no\n"


def hosts(plan: Plan, system: str) -> str:
    """The machine's own hosts file and the nodes' names."""
    lines = [f"{node.address} {node.name}" for node in plan.nodes]
    return "\n".join([system.rstrip("\n"), *lines]) + "\n"


def slurmdbd_conf(plan: Plan) -> str:
    """The accounting daemon, which keeps its tables in the cluster's own database."""
    assert plan.database_ports is not None
    database, daemon = plan.database_ports
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={plan.munge_socket}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={daemon}",
        "SlurmUser=root",
        f"LogFile={plan.logs}/slurmdbd.log",
        f"PidFile={plan.directory}/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageHost=127.0.0.1",
        f"StoragePort={database}",
        "StorageUser=slurm",
        "StoragePass=slurm",
        f"StorageLoc={DATABASE}",
    ]
    return "\n".join(lines) + "\n"
