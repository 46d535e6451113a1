#!/usr/bin/env bash
#SBATCH --job-name=fsdp-benchmark
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=02:00:00
#SBATCH --output=train_%j.out # moved to logs/train_%j.out
#SBATCH --error=train_%j.err # moved to logs/train_%j.err
# Measure the cluster, then train on it:
#
#     sbatch --nodes 2 slurm_submit.sh [ARGUMENT OF train.py...]
#
# BENCHMARK_ARGUMENTS are words for benchmark.py, STORAGE_DIR is the folder it writes in, and
# DRY_RUN=yes only says what would run. Training starts even if a measurement fails.
set -euo pipefail

# Slurm runs a copy of this file and tells where the original is, beside the scripts. They are looked
# for there, then from where it was submitted; CCLTUI_SBATCH names them elsewhere.
here=$(dirname -- "${BASH_SOURCE[0]}")
command=$(scontrol show job "${SLURM_JOB_ID:-none}" 2>/dev/null | sed -n '/^ *Command=/ { s///p; q; }') || true
original=$(readlink -f -- "${command%" $*"}") || true
for CCLTUI_SBATCH in "${CCLTUI_SBATCH:-}" "${original%/*}/.." "$here/.." "${SLURM_SUBMIT_DIR:-.}"{/..,/sbatch,}; do
    [[ ! -r $CCLTUI_SBATCH/fsdp_benchmark/lib.sh ]] || break
done
[[ -r $CCLTUI_SBATCH/fsdp_benchmark/lib.sh ]] || {
    echo "${0##*/}: error: the scripts are not beside this file: set CCLTUI_SBATCH to their folder sbatch" >&2
    exit 2
}
# shellcheck source=lib.sh
source "$CCLTUI_SBATCH/fsdp_benchmark/lib.sh"
prepare "$@"
run_benchmark || warn "the benchmark failed; what it measured is in logs/"
next_port
run_training --checkpoints "${CHECKPOINT_DIR:-checkpoints/${SLURM_JOB_ID:-local}}" "$@"
