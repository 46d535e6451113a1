# shellcheck shell=bash
# Find the reason of a failed training in its log, and the solution.

# explain_log FILE...: a line for each known reason that the logs name.
explain_log() {
    local reason found=no
    while IFS='|' read -r reason fix; do
        grep -qisE -- "${reason//;/|}" "$@" || continue
        log "the log names: ${reason%%;*}"
        printf '    fix: %s\n' "$fix" >&2
        found=yes
    done <<'REASONS'
out of memory|reduce local_batch_size, set mode = "full" in [activation_checkpoint], or shard the model
does not support pipelining|set pipeline_parallel_degree = 1, or see «Newer versions» in sbatch/README.md
rendezvous;DistNetworkError;failed to connect to;client socket has timed out|the nodes do not reach MASTER_ADDR: another MASTER_PORT, or the site's network settings
Communication connection failure;Node failure on;due to node failure|a node of the job does not answer; sinfo -R names those that are down: submit it again
network AWS Libfabric not found;network ofi not found|NCCL did not load its plug-in for the network: SITE_NETWORK_MODULES, SITE_NCCL_PLUGIN or SITE_CONTAINER of the site
ncclSystemError;ncclRemoteError;ncclUnhandledCudaError;NCCL error|export NCCL_DEBUG=INFO and look for the first warning
couldn't reach;LocalEntryNotFoundError;offline mode is enabled;Max retries exceeded|the data set is fetched while training: log in with HF_TOKEN, or give -- --training.dataset_path
no space left on device;disk quota exceeded;Failed to write to log file|the traces found no room: set TRACE_BASE and SITE_SCRATCH to a file system with more
CUPTI_ERROR|another profiler is attached: use one profile mode, and no nsys around the job
no module named|the environment in VENV_DIR lacks it: setup_env.sh
REASONS
    [[ $found == yes ]]
}
