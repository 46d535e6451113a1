# shellcheck shell=bash
# shellcheck disable=SC2034,SC2016
# A plain Slurm cluster. For another one copy this file, change what differs and name the copy:
#     export CCLTUI_SITE=/path/to/my-cluster.sh
# Variables of the environment override the values here.

SITE_NAME=generic

# Who pays. yes: refuse to submit without an account.
: "${SITE_ACCOUNT:=}"
: "${SITE_ACCOUNT_NEEDED:=no}"
SITE_ACCOUNT_FROM='set SITE_ACCOUNT' # what to do where it is missing
SITE_ACCOUNT_LIST='sacctmgr show assoc user=$USER format=account,qos'

# Where jobs go; empty leaves the choice to the cluster.
: "${SITE_PARTITION:=}"
: "${SITE_CONSTRAINT:=}"
: "${SITE_QOS:=}"
: "${SITE_QUICK_QOS:=}"  # of run.sh --quick
: "${SITE_QUICK_TIME:=}" # of run.sh --quick, for both runs of profile mode both

# The same for the job that computes metrics from traces, which needs no GPU. Without an account
# of its own (SITE_ANALYSIS_ACCOUNT) it goes to the one above.
: "${SITE_ANALYSIS_PARTITION:=}"
: "${SITE_ANALYSIS_CONSTRAINT:=}"
: "${SITE_ANALYSIS_QOS:=}"

# Hardware of a node. SITE_GPU_OPTION is the option that requests GPUs; empty: none.
: "${SITE_DEVICE:=cuda}" # cuda | cpu: where the training runs; cpu expects no GPU events
: "${SITE_GPUS_PER_NODE:=4}"
: "${SITE_GPU_OPTION=--gpus-per-node=}"
: "${SITE_GPU_MEMORY_GIB:=80}"
# Nodes with larger GPUs, which run.sh asks for where a workload does not fit the others; empty: none.
: "${SITE_LARGE_GPU_MEMORY_GIB:=}"
: "${SITE_LARGE_CONSTRAINT:=}"
: "${SITE_CPUS_PER_TASK:=32}"

# Further options of sbatch and of srun.
SITE_SBATCH_OPTIONS=()
SITE_SRUN_OPTIONS=()

# Modules that a job and setup_env.sh load, in this order.
SITE_MODULES=()

# The network between nodes, for jobs on several: modules that hold NCCL's plug-in for it, or the folder
# of the plug-in, which is used in their place. SITE_NCCL_NETWORK is the name that NCCL prints after
# "Using network"; with one, a job without its plug-in ends before it trains.
SITE_NETWORK_MODULES=()
: "${SITE_NCCL_PLUGIN:=}"
: "${SITE_NCCL_NETWORK:=}"
: "${SITE_SOCKETS_ALLOWED:=no}" # yes: sockets are no failure, as there is no faster network

# Words before the command of each node: a container, as in (shifter --image=NAME --module=gpu). Its
# Python trains in place of that of VENV_DIR, which still checks; empty: no container.
SITE_CONTAINER=()
: "${SITE_CONTAINER_PYTHON:=python}"

# A file system that login and compute nodes share, for traces, caches and tokenizers.
: "${SITE_SCRATCH:=${SCRATCH:-$HOME}}"

# Called in the job, on every node, before training starts. NODES is the number of nodes.
site_environment() {
    export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}
}
