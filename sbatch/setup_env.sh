#!/usr/bin/env bash
# Make the Python environment in which workloads train: PyTorch, torchtitan and ccltui.
#
#     setup_env.sh [OPTION]...
#
#   --with-models     also fetch the tokenizers of the workloads (no weights: training starts from
#                     random ones); gated models need HF_TOKEN
#   --site NAME|FILE  site profile
#   --recreate        make the environment anew
#   --dry-run         print the commands and run none
#   --help
#
# VENV_DIR is where it is made. TORCHTITAN_VERSION is 0.2.2, the last release that reads
# train_config.toml; the scripts start newer ones too, in an environment of their own:
#     VENV_DIR=$SCRATCH/titan-0.3 TORCHTITAN_VERSION=0.3.0 setup_env.sh
# TORCH_BACKEND is cu129: CUDA 12.9, whose package index uv has built in. Where there is no uv, pip
# installs it into the new environment. TORCH_INDEX names another index, for pip or uv alike.
# TORCH_VERSION is the newest there.
set -euo pipefail

export PROGRAM=setup_env
CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
export CCLTUI_SBATCH
# shellcheck source=lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=lib/site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=lib/paths.sh
source "$CCLTUI_SBATCH/lib/paths.sh"

TORCH_BACKEND=${TORCH_BACKEND:-cu129}
TORCHTITAN_VERSION=${TORCHTITAN_VERSION:-0.2.2}

main() {
    WITH_MODELS=no RECREATE=no DRY_RUN=no
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --with-models) WITH_MODELS=yes ;;
        --recreate) RECREATE=yes ;;
        --dry-run) DRY_RUN=yes ;;
        --site)
            need_value "$1" $#
            CCLTUI_SITE=$2
            shift
            ;;
        *) unknown_option "$1" ;;
        esac
        shift
    done
    load_site
    set_paths
    set_caches
    [[ $DRY_RUN == yes ]] || load_modules
    make_environment
    install_packages
    [[ $DRY_RUN == yes ]] || show_versions
    [[ $WITH_MODELS == no ]] || fetch_tokenizers
    log "next: source $CCLTUI_SBATCH/activate.sh; then a workload's run.sh"
}

# run WORD...: the command, or its text.
run() {
    if [[ $DRY_RUN == yes ]]; then
        shell_words "$@"
    else
        "$@"
    fi
}

make_environment() {
    local words
    if [[ $RECREATE == yes && -e $VENV_DIR ]]; then
        [[ -e $VENV_DIR/pyvenv.cfg ]] || fail "$USAGE" "$VENV_DIR is no Python environment" \
            "nothing was removed; set VENV_DIR to another folder"
        run rm -rf -- "$VENV_DIR"
    elif [[ -x $VENV_DIR/bin/python ]]; then
        log "using the environment in $VENV_DIR"
        return
    fi
    if command -v uv >/dev/null; then
        words=(uv venv --python ">=3.11" "$VENV_DIR")
    else
        find_python
        [[ -n $PYTHON ]] || fail "$FAILED" "neither uv nor a Python of 3.11 or newer here" \
            "install uv (https://docs.astral.sh/uv), or load a module of Python"
        words=("$PYTHON" -P -m venv "$VENV_DIR")
    fi
    run "${words[@]}" || fail "$FAILED" "the environment could not be made in $VENV_DIR" \
        "set VENV_DIR to a folder that you can write to"
}

# find_torch: set PIP, the command that installs, and TORCH_FROM, which selects the build of PyTorch.
find_torch() {
    PIP=("$VENV_DIR/bin/python" -P -m pip install)
    if command -v uv >/dev/null; then
        PIP=(uv pip install --python "$VENV_DIR/bin/python")
    elif [[ -z ${TORCH_INDEX:-} ]]; then
        # pip knows one index only, which has PyTorch for one CUDA only.
        run "${PIP[@]}" uv || fail "$FAILED" "pip could not install uv into $VENV_DIR" \
            "see above; or set TORCH_INDEX to PyTorch's package index for $TORCH_BACKEND"
        PIP=("$VENV_DIR/bin/python" -P -m uv pip install --python "$VENV_DIR/bin/python")
    fi
    TORCH_FROM=(--torch-backend "$TORCH_BACKEND")
    [[ -z ${TORCH_INDEX:-} ]] || TORCH_FROM=(--index-url "$TORCH_INDEX")
}

install_packages() {
    local lock=$CCLTUI_SBATCH/workloads/torchtitan-$TORCHTITAN_VERSION.lock versions=()
    [[ ! -r $lock ]] || versions=(--constraint "$lock")
    find_torch
    # torch first and from its own index: torchtitan would take another one, of another CUDA.
    run "${PIP[@]}" "${TORCH_FROM[@]}" "torch${TORCH_VERSION:+==$TORCH_VERSION}" ||
        fail "$FAILED" "PyTorch could not be installed (${TORCH_FROM[*]})" \
            "see above; TORCH_BACKEND, TORCH_INDEX and TORCH_VERSION choose another build"
    run "${PIP[@]}" "${versions[@]}" "torchtitan==$TORCHTITAN_VERSION" "$CCL_BENCH_HOME" ||
        fail "$FAILED" "torchtitan $TORCHTITAN_VERSION or ccltui could not be installed" "see above"
}

show_versions() {
    local said
    said=$(
        "$VENV_DIR/bin/python" -P - <<'PYTHON'
from importlib.metadata import version

import torch

print("torch", torch.__version__, "with CUDA", torch.version.cuda)
print("torchtitan", version("torchtitan"))
print("ccltui", version("ccltui"))
PYTHON
    ) || fail "$FAILED" "the environment does not work" "see above, or use --recreate"
    printf '%s\n' "$said"
    [[ $SITE_DEVICE == cpu || $said != *"with CUDA None"* ]] ||
        warn "this PyTorch has no CUDA, but $SITE_NAME trains on GPUs: see TORCH_BACKEND in --help"
}

# fetch_tokenizers: of the models that the workload cards name.
fetch_tokenizers() {
    local card url repository
    declare -A fetched=()
    for card in "$CCLTUI_SBATCH"/workloads/*/workload_card.yaml; do
        url=$(sed -n 's/^hf_url: *//p' "$card")
        repository=${url#https://huggingface.co/}
        [[ -n $url && -z ${fetched[$repository]:-} ]] || continue
        fetched[$repository]=yes
        run "$VENV_DIR/bin/hf" download "$repository" --include "tokenizer*" --include "config.json" \
            --local-dir "$HF_ASSETS_ROOT/${repository##*/}" ||
            fail "$FAILED" "the tokenizer of $repository could not be fetched" \
                "accept its licence on $url and set HF_TOKEN, or copy tokenizer.json to $HF_ASSETS_ROOT/${repository##*/}"
    done
}

main "$@"
