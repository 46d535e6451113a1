#!/usr/bin/env bash
# Compute all metrics of traces in a job of its own, if wanted behind the jobs that write them.
#
#     submit.sh [OPTION]... DIR... [-- OPTION OF ccltui analyse...]
#
#   --after JOB[:JOB...]   start once these jobs have succeeded; never, when one of them fails
#   --dry-run              print what would be submitted, and submit nothing
#   --test-only            let Slurm say when it would start, and submit nothing
#   --site NAME|FILE       site profile
#   --account, --qos, --partition, --constraint, --time   as sbatch has them
#   --parsable             print nothing but the job id
#   --help
#
# metrics.json and metrics.csv are written into each DIR, which need not be there yet.
set -euo pipefail

export PROGRAM=analysis
CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export CCLTUI_SBATCH
# shellcheck source=../lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=../lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=../lib/site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=../lib/paths.sh
source "$CCLTUI_SBATCH/lib/paths.sh"

main() {
    read_options "$@"
    load_site
    : "${SITE_ANALYSIS_QOS:=}" "${SITE_ANALYSIS_PARTITION:=}" "${SITE_ANALYSIS_CONSTRAINT:=}"
    set_paths
    need_account
    check_dependency
    sbatch_words
    case $ACTION in
    dry-run) show_plan ;;
    test-only) env "${JOB_ENVIRONMENT[@]}" sbatch --test-only "${SBATCH[@]}" || refused ;;
    submit) submit ;;
    esac
}

read_options() {
    ACTION=submit PARSABLE=no AFTER="" TIME_LIMIT="" DIRECTORIES=() FURTHER=()
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --dry-run | --test-only) ACTION=${1#--} ;;
        --parsable) PARSABLE=yes ;;
        --after | --site | --account | --qos | --partition | --constraint | --time)
            need_value "$1" $#
            read_value "$1" "$2"
            shift
            ;;
        --)
            FURTHER=("${@:2}")
            break
            ;;
        -*) unknown_option "$1" ;;
        *) DIRECTORIES+=("$(realpath -m -- "$1")") ;;
        esac
        shift
    done
    ((${#DIRECTORIES[@]})) || fail "$USAGE" "no directory is named" "see --help"
}

# read_value NAME VALUE
read_value() {
    case $1 in
    --after) AFTER=$2 ;;
    --site) CCLTUI_SITE=$2 ;;
    --account) SITE_ANALYSIS_ACCOUNT=$2 SITE_ACCOUNT=$2 ;;
    --qos) SITE_ANALYSIS_QOS=$2 ;;
    --partition) SITE_ANALYSIS_PARTITION=$2 ;;
    --constraint) SITE_ANALYSIS_CONSTRAINT=$2 ;;
    --time) TIME_LIMIT=$2 ;;
    esac
}

# check_dependency: fail now, not in the queue, for a directory that no job will write.
check_dependency() {
    local directory
    if [[ -n $AFTER ]]; then
        [[ $AFTER =~ ^[0-9]+(_[0-9]+)?(:[0-9]+(_[0-9]+)?)*$ ]] || fail "$USAGE" "--after is '$AFTER'" \
            "give job ids, as in 1234 or 1234:1235"
        return
    fi
    for directory in "${DIRECTORIES[@]}"; do
        [[ -d $directory ]] || fail "$USAGE" "no directory $directory" "name traces, or give --after the job that writes them"
    done
}

# sbatch_words: set SBATCH, the arguments of `sbatch`, and JOB_ENVIRONMENT.
sbatch_words() {
    local account=${SITE_ANALYSIS_ACCOUNT:-$SITE_ACCOUNT}
    JOB_ENVIRONMENT=(
        "CCLTUI_SBATCH=$CCLTUI_SBATCH" "CCLTUI_SITE=$CCLTUI_SITE" "CCLTUI_SUBMITTED=yes" "VENV_DIR=$VENV_DIR"
    )
    SBATCH=(--export=ALL --output="$(log_pattern)")
    # Else a job whose condition can no longer come true waits in the queue for ever.
    [[ -z $AFTER ]] || SBATCH+=(--dependency="afterok:$AFTER" --kill-on-invalid-dep=yes)
    [[ -z $account ]] || SBATCH+=(--account="$account")
    [[ -z $SITE_ANALYSIS_QOS ]] || SBATCH+=(--qos="$SITE_ANALYSIS_QOS")
    [[ -z $SITE_ANALYSIS_PARTITION ]] || SBATCH+=(--partition="$SITE_ANALYSIS_PARTITION")
    [[ -z $SITE_ANALYSIS_CONSTRAINT ]] || SBATCH+=(--constraint="$SITE_ANALYSIS_CONSTRAINT")
    [[ -z $TIME_LIMIT ]] || SBATCH+=(--time="$TIME_LIMIT")
    SBATCH+=("$CCLTUI_SBATCH/analysis/analyse.sbatch" "${FURTHER[@]}" -- "${DIRECTORIES[@]}")
}

log_pattern() {
    printf '%s\n' "$TRACE_BASE/logs/%x_%j.out"
}

show_plan() {
    printf '%s\n' "site      $SITE_NAME" "log       $(log_pattern)"
    printf 'writes    %s/metrics.json and .csv\n' "${DIRECTORIES[@]}"
    printf '%s\n' "would run"
    printf '    %s\n' "${JOB_ENVIRONMENT[@]}"
    printf '    %s\n' "$(shell_words sbatch --parsable "${SBATCH[@]}")" "with, in analyse.sbatch"
    grep '^#SBATCH' "$CCLTUI_SBATCH/analysis/analyse.sbatch" | sed 's/^/    /'
}

submit() {
    local id
    command -v sbatch >/dev/null || fail "$FAILED" "there is no sbatch here" \
        "log in to a node of the cluster, or run: ccltui analyse DIR"
    mkdir -p -- "$(dirname -- "$(log_pattern)")" || fail "$FAILED" \
        "the folder for logs cannot be made" "set TRACE_BASE to a folder you can write to"
    id=$(env "${JOB_ENVIRONMENT[@]}" sbatch --parsable "${SBATCH[@]}") || refused
    if [[ $PARSABLE == yes ]]; then
        printf '%s\n' "${id%%;*}"
        return
    fi
    printf '%s\n' "submitted ${id%%;*}"
    printf 'writes    %s/metrics.json and .csv\n' "${DIRECTORIES[@]}"
}

refused() {
    fail "$FAILED" "Slurm refused the job" \
        "see the line of sbatch above; accounts and qos of yours: $SITE_ACCOUNT_LIST; partitions: sinfo -s"
}

main "$@"
