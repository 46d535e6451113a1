# shellcheck shell=bash
# Default paths. Variables of the environment override them.

# set_paths: after load_site.
set_paths() {
    [[ -n ${SITE_SCRATCH:-} || (-n ${TRACE_BASE:-} && -n ${HF_ASSETS_ROOT:-} && -n ${VENV_DIR:-}) ]] ||
        fail "$USAGE" "no folder for traces, caches and tokenizers on $SITE_NAME" \
            "set SCRATCH, or SITE_SCRATCH in $CCLTUI_SITE, to a file system that all nodes share"
    CCL_BENCH_HOME=$(cd -- "$CCLTUI_SBATCH/.." && pwd)
    export CCL_BENCH_HOME
    # A job starts in another folder than the one it was submitted from.
    VENV_DIR=$(realpath -ms -- "${VENV_DIR:-$SITE_SCRATCH/ccl-bench-venv}")
    TRACE_BASE=$(realpath -m -- "${TRACE_BASE:-$SITE_SCRATCH/ccl-bench-traces}")
    HF_ASSETS_ROOT=$(realpath -m -- "${HF_ASSETS_ROOT:-$SITE_SCRATCH/ccl-bench-assets}")
    export VENV_DIR TRACE_BASE HF_ASSETS_ROOT
}

# set_caches: compilers and downloads fill home directories, which are small and slow.
set_caches() {
    local base=${SITE_SCRATCH:-$TRACE_BASE}/ccl-bench-cache
    export HF_HOME=${HF_HOME:-$base/huggingface}
    export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$base/xdg}
    export TORCH_EXTENSIONS_DIR=${TORCH_EXTENSIONS_DIR:-$base/torch_extensions}
    export TRITON_CACHE_DIR=${TRITON_CACHE_DIR:-$base/triton}
    export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$base/cuda}
}

# find_python: the interpreter of the training environment, else one that can read TOML. PYTHON
# stays empty where there is none.
find_python() {
    local candidate
    PYTHON=""
    for candidate in "$VENV_DIR/bin/python" python3 python; do
        "$candidate" -P -c 'import tomllib' 2>/dev/null || continue
        PYTHON=$candidate
        break
    done
    export PYTHON
}
