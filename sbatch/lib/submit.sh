#!/usr/bin/env bash
# Check a workload and submit it to Slurm.
#
#     run.sh [OPTION]... [-- ARGUMENT OF THE TRAINING PROGRAM...]
#
#   --dry-run              print what would be submitted, and submit nothing
#   --test-only            let Slurm say when it would start, and submit nothing
#   --local                run here and now, without Slurm, on one node
#   --profile MODE         torch, nsys, or both (default): two runs, one after the other
#   --steps N              end after N steps
#   --quick                20 steps in the site's queue for short jobs
#   --site NAME|FILE       site profile
#   --account, --qos, --partition, --constraint, --time   as sbatch has them
#   --nodes N, --gpus-per-node N   default: what the parallel degrees make
#   --dependency SPEC      as sbatch has it: afterok:JOB
#   --output DIR           where traces arrive; default $TRACE_BASE/WORKLOAD
#   --train-program P      a module or script instead of torchtitan.train
#   --parsable             print nothing but the job id
#   --help
#
# FR=1, INSPECTOR=1 and RAS=1 switch recorders of communication on.
# Every option of the site can be set in its profile or in the environment: see sbatch/README.md.
set -euo pipefail

export PROGRAM=run.sh
CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export CCLTUI_SBATCH
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=paths.sh
source "$CCLTUI_SBATCH/lib/paths.sh"
# shellcheck source=checks.sh
source "$CCLTUI_SBATCH/lib/checks.sh"
# shellcheck source=sbatch_command.sh
source "$CCLTUI_SBATCH/lib/sbatch_command.sh"
# shellcheck source=records.sh
source "$CCLTUI_SBATCH/lib/records.sh"

main() {
    WORKLOAD_DIR=$(cd -- "$1" && pwd)
    shift
    read_options "$@"
    load_site
    need_recorders
    set_profile_mode
    use_chosen_gpus
    set_paths
    name=${WORKLOAD_DIR##*/}
    TRACE_DIR=${TRACE_DIR:-$TRACE_BASE/$name}
    set_program
    find_python
    DEFAULT_NODES=$(directive nodes)
    declare -gA FACTS=()
    if [[ -n $PYTHON ]]; then
        check_workload "${TRAIN_ARGUMENTS[@]}"
        use_large_gpus
    else
        warn "the configuration was not checked: no Python with tomllib (3.11 or newer) here"
        NODES=${NODES:-$DEFAULT_NODES} GPUS_PER_NODE=${GPUS_PER_NODE:-$SITE_GPUS_PER_NODE}
        need_count --nodes "$NODES"
        need_count --gpus-per-node "$GPUS_PER_NODE"
    fi
    if [[ $ACTION == local ]]; then
        run_here
    fi
    need_account
    sbatch_command
    case $ACTION in
    dry-run) show_plan ;;
    test-only) submit --test-only ;;
    submit) submit --parsable ;;
    esac
}

read_options() {
    ACTION=submit PARSABLE=no TIME_LIMIT="" DEPENDENCY="" NODES=${NODES:-} GPUS_PER_NODE=${GPUS_PER_NODE:-}
    TRAIN_ARGUMENTS=() QUICK=no CONSTRAINT_CHOSEN=no
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --dry-run | --test-only | --local) ACTION=${1#--} ;;
        --parsable) PARSABLE=yes ;;
        --quick) QUICK=yes ;;
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --)
            TRAIN_ARGUMENTS+=("${@:2}")
            break
            ;;
        --*)
            read_value "$@"
            shift
            ;;
        *) unknown_option "$1" ;;
        esac
        shift
    done
    [[ -z ${PROFILE_MODE:-} ]] || need_one_of --profile "$PROFILE_MODE" torch nsys both
    if [[ $QUICK == yes ]]; then
        TRAIN_ARGUMENTS=(--training.steps 20 "${TRAIN_ARGUMENTS[@]}")
    fi
}

# read_value NAME VALUE...: one option that takes a value.
read_value() {
    case $1 in
    --profile | --steps | --site | --account | --qos | --partition | --constraint | --time | --nodes | \
        --gpus-per-node | --dependency | --output | --train-program) need_value "$1" $# ;;
    *) unknown_option "$1" ;;
    esac
    case $1 in
    --profile) PROFILE_MODE=$2 ;;
    --steps)
        need_count --steps "$2"
        TRAIN_ARGUMENTS+=(--training.steps "$2")
        ;;
    --site) CCLTUI_SITE=$2 ;;
    --account) SITE_ACCOUNT=$2 ;;
    --qos) SITE_QOS=$2 SITE_QUICK_QOS=$2 ;;
    --partition) SITE_PARTITION=$2 ;;
    --constraint) SITE_CONSTRAINT=$2 CONSTRAINT_CHOSEN=yes ;;
    --time) TIME_LIMIT=$2 ;;
    --nodes)
        need_count --nodes "$2"
        NODES=$2
        ;;
    --gpus-per-node)
        need_count --gpus-per-node "$2"
        GPUS_PER_NODE=$2
        ;;
    --dependency) DEPENDENCY=$2 ;;
    --output) TRACE_DIR=$(realpath -m -- "$2") ;;
    --train-program)
        CCLTUI_TRAIN_PROGRAM=$2
        [[ $2 != *.py ]] || CCLTUI_TRAIN_PROGRAM=$(realpath -m -- "$2")
        ;;
    esac
}

# use_chosen_gpus: a constraint of one's own is kept; that of the larger nodes means their memory.
use_chosen_gpus() {
    [[ $CONSTRAINT_CHOSEN == yes ]] || return 0
    [[ $SITE_CONSTRAINT != "${SITE_LARGE_CONSTRAINT:-}" ]] || SITE_GPU_MEMORY_GIB=$SITE_LARGE_GPU_MEMORY_GIB
    SITE_LARGE_GPU_MEMORY_GIB=""
}

# use_large_gpus: ask for the larger nodes where the workload does not fit the others.
use_large_gpus() {
    [[ ${FACTS[large_gpus]} == yes ]] || return 0
    SITE_CONSTRAINT=${SITE_LARGE_CONSTRAINT:-} SITE_GPU_MEMORY_GIB=$SITE_LARGE_GPU_MEMORY_GIB
}

show_plan() {
    printf '%s\n' "workload  $name" "site      $SITE_NAME" "ranks     $NODES x $GPUS_PER_NODE" \
        "profile   $PROFILE_MODE" "traces    $TRACE_DIR" "log       $(log_pattern)" "would run"
    printf '    %s\n' "${JOB_ENVIRONMENT[@]}"
    printf '    %s\n' "$(shown_command)"
    printf '%s\n' "with, in run.sbatch"
    grep '^#SBATCH' "$WORKLOAD_DIR/run.sbatch" | sed 's/^/    /'
}

# submit OPTION: hand it over; standard output is the job id.
submit() {
    local id
    command -v sbatch >/dev/null || fail "$FAILED" "there is no sbatch here" \
        "log in to a node of the cluster, or use --local"
    mkdir -p -- "$(dirname -- "$(log_pattern)")" || fail "$FAILED" \
        "the folder for logs cannot be made" "set TRACE_BASE to a folder you can write to"
    id=$(hand_over "$1") ||
        fail "$FAILED" "Slurm refused the job" "$(refusal_help)"
    [[ $1 == --parsable ]] || return 0
    if [[ $PARSABLE == yes ]]; then
        printf '%s\n' "${id%%;*}"
        return
    fi
    printf '%s\n' "submitted ${id%%;*}: $name"
    log "watch it with: squeue -j ${id%%;*}; its log is $(log_of_job "${id%%;*}"); traces arrive in $TRACE_DIR"
}

# log_of_job ID: log_pattern as Slurm fills it in.
log_of_job() {
    local pattern
    pattern=$(log_pattern)
    pattern=${pattern//%x/$(directive job-name)}
    printf '%s' "${pattern//%j/$1}"
}

refusal_help() {
    printf '%s' "see the line of sbatch above; accounts and qos of yours: $SITE_ACCOUNT_LIST; " \
        "partitions: sinfo -s"
}

# run_here: the same job without a queue.
run_here() {
    local variable
    for variable in "${!SLURM_@}"; do unset "$variable"; done
    ((NODES == 1)) || fail "$USAGE" "--local has one node, the degrees of this workload make $NODES nodes" \
        "give --gpus-per-node $((NODES * GPUS_PER_NODE)), if this machine has them"
    job_environment
    exec env "${JOB_ENVIRONMENT[@]}" bash "$WORKLOAD_DIR/run.sbatch" "${TRAIN_ARGUMENTS[@]}"
}

main "$@"
