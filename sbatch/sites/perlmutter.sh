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

: "${SITE_SCRATCH:=${SCRATCH:-}}"

site_environment() {
    export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    export NCCL_NET_GDR_LEVEL=${NCCL_NET_GDR_LEVEL:-PHB}
    export NCCL_IB_QPS_PER_CONNECTION=${NCCL_IB_QPS_PER_CONNECTION:-4}
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}
}
