#!/usr/bin/env bash
# Print the commands that make this shell ready for the site; activate.sh evaluates them.
#
#     environment.sh [--site NAME|FILE]
set -euo pipefail

export PROGRAM=environment
CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=paths.sh
source "$CCLTUI_SBATCH/lib/paths.sh"

main() {
    local name site variable
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
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
    for name in CCLTUI_SBATCH CCLTUI_SITE CCL_BENCH_HOME VENV_DIR TRACE_BASE HF_ASSETS_ROOT \
        HF_HOME XDG_CACHE_HOME TORCH_EXTENSIONS_DIR TRITON_CACHE_DIR CUDA_CACHE_PATH; do
        printf 'export %s=%q\n' "$name" "${!name}"
    done
    # With these a plain `sbatch` asks for what the site needs. A variable wins over the lines of a script:
    # where nodes differ in their GPUs, each run.sbatch names those it needs.
    for name in ACCOUNT PARTITION CONSTRAINT QOS; do
        site=SITE_$name variable=SBATCH_$name
        [[ $name != CONSTRAINT || -z ${SITE_LARGE_CONSTRAINT:-} ]] || continue
        [[ -n ${!site} && ${!site} != "${!variable:-}" ]] || continue
        printf 'export SBATCH_%s=%q\n' "$name" "${!site}"
        printf 'export CCLTUI_ACTIVATED_%s=%q\n' "$name" "${!site}"
    done
    for name in "${SITE_MODULES[@]}"; do
        printf 'module load %q\n' "$name"
    done
    if [[ -r $VENV_DIR/bin/activate ]]; then
        printf 'source %q\n' "$VENV_DIR/bin/activate"
    else
        warn "no Python environment in $VENV_DIR yet: run setup_env.sh"
    fi
}

main "$@"
