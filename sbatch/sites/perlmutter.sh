# shellcheck shell=bash
# shellcheck disable=SC2034,SC2016
# NERSC Perlmutter, GPU nodes: 4 A100, 64 cores (128 hardware threads). See sites/generic.sh for
# what each setting means. Variables of the environment override the values here.

SITE_NAME=perlmutter

# Who pays: NERSC_ALLOCATION of the environment, else that of ../perlmutter/common.sh.
site_allocation() (
    # shellcheck source=../perlmutter/common.sh
    [[ -n ${NERSC_ALLOCATION:-} ]] || source "$CCLTUI_SBATCH/perlmutter/common.sh"
    printf '%s' "$NERSC_ALLOCATION"
)
: "${SITE_ACCOUNT:=$(site_allocation)}"
SITE_ACCOUNT_NEEDED=yes
SITE_ACCOUNT_FROM='set NERSC_ALLOCATION in sbatch/perlmutter/common.sh or export it'
SITE_ACCOUNT_LIST='sacctmgr show assoc user=$USER format=account,qos'

: "${SITE_PARTITION:=}"
: "${SITE_CONSTRAINT:=gpu}"
: "${SITE_QOS:=regular}"
: "${SITE_QUICK_QOS:=debug}"
: "${SITE_QUICK_TIME:=00:30:00}" # the most that debug allows

: "${SITE_ANALYSIS_PARTITION:=}"
: "${SITE_ANALYSIS_CONSTRAINT:=cpu}"
: "${SITE_ANALYSIS_QOS:=shared}"

SITE_DEVICE=cuda
: "${SITE_GPUS_PER_NODE:=4}"
: "${SITE_GPU_OPTION=--gpus-per-node=}"
: "${SITE_GPU_MEMORY_GIB:=40}"
: "${SITE_LARGE_GPU_MEMORY_GIB:=80}"
: "${SITE_LARGE_CONSTRAINT:=gpu&hbm80g}"
: "${SITE_CPUS_PER_TASK:=128}"

SITE_SBATCH_OPTIONS=()
SITE_SRUN_OPTIONS=(--cpu-bind=none)

SITE_MODULES=(python cudatoolkit/12.9)

# Slingshot: NCCL reaches it through libfabric, by the plug-in aws-ofi-nccl. NERSC's module nccl holds
# NCCL and this plug-in; the version has to be one for the CUDA of PyTorch (12 here).
SITE_NETWORK_MODULES=("${SITE_NCCL_MODULE:-nccl/2.24.3}")
: "${SITE_NCCL_PLUGIN:=}"
: "${SITE_NCCL_NETWORK:=AWS Libfabric}"
: "${SITE_SOCKETS_ALLOWED:=no}"

# As (shifter --image=nersc/pytorch:25.06.01 --module=gpu,nccl-plugin), where PyTorch from pip cannot
# load the plug-in.
SITE_CONTAINER=()
: "${SITE_CONTAINER_PYTHON:=python}"

: "${SITE_SCRATCH:=${SCRATCH:-}}"

# The values are those of NERSC's own tests of this plug-in and of its module, but for the size of the
# queue, which sites with Slingshot and HPE recommend for large jobs.
site_environment() {
    export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}
    ((${NODES:-1} > 1)) || return 0
    # Without the plug-in NCCL ends with an error, in place of falling back to sockets in silence.
    export NCCL_NET=${NCCL_NET:-$SITE_NCCL_NETWORK}
    # The network cards of Slingshot are hsn0 to hsn3; ranks find each other over them.
    export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-hsn}
    # A ring may leave a node by another card than it came in: one network joins all four.
    export NCCL_CROSS_NIC=${NCCL_CROSS_NIC:-1}
    # Cards read and write GPU memory directly as long as both hang on one socket.
    export NCCL_NET_GDR_LEVEL=${NCCL_NET_GDR_LEVEL:-PHB}
    # Libfabric registers no host memory with CUDA, which can block for ever against NCCL.
    export FI_CXI_DISABLE_HOST_REGISTER=${FI_CXI_DISABLE_HOST_REGISTER:-1}
    # How libfabric notices that registered memory was freed; NERSC's examples train with this one.
    export FI_MR_CACHE_MONITOR=${FI_MR_CACHE_MONITOR:-userfaultfd}
    # Completions that wait to be read; the default is too small for large jobs.
    export FI_CXI_DEFAULT_CQ_SIZE=${FI_CXI_DEFAULT_CQ_SIZE:-131072}
}
