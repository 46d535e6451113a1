#!/usr/bin/env bash
# Extract statistics from reports of nsys, with the report names of the nsys that is here.
#
#     stats.sh [OPTION]... REPORT|DIRECTORY...
#
#   --report LIST       names as nsys has them since 2023, by default nvtx_sum,osrt_sum,cuda_api_sum,
#                       cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum
#   --format FORMAT     column (default), csv, tsv or json
#   --timeunit UNIT     nsec, usec (default), msec or sec
#   --filter-time A/B   only rows that touch this window, as in 4s420ms/35s390ms; nsys 2023 or newer
#   --output DIR        default: beside each report
#   --dry-run           print the commands and run none
#   --help
#
# `column` writes nsys_stats_REPORT.txt, which holds all reports; the other formats write a file a
# report, REPORT_NAME.csv. Of a directory every .nsys-rep below it is taken, links are followed.
# `ccltui stats` prints the same reports from an .sqlite export without any nsys.
set -euo pipefail

export PROGRAM=nsys/stats.sh
CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=../lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=../lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"

REPORTS=nvtx_sum,osrt_sum,cuda_api_sum,cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum

# Names before 2023. The rest is the name without its underscores.
declare -rA OLD_NAMES=(
    [cuda_gpu_trace]=gputrace [cuda_gpu_sum]=gpusum [cuda_gpu_kern_sum]=gpukernsum
    [cuda_gpu_kern_gb_sum]=gpukerngbsum [cuda_gpu_mem_time_sum]=gpumemtimesum
    [cuda_gpu_mem_size_sum]=gpumemsizesum [cuda_api_gpu_sum]=apigpusum
    [cuda_kern_exec_sum]=kernexecsum [cuda_kern_exec_trace]=kernexectrace
    [nvtx_pushpop_sum]=nvtxppsum [nvtx_pushpop_trace]=nvtxpptrace
    [nvtx_startend_sum]=nvtxsesum [nvtx_gpu_proj_trace]=nvtxgpuproj
)

main() {
    local report status=0
    read_options "$@"
    need_one_of --format "$FORMAT" column csv tsv json
    need_one_of --timeunit "$UNIT" nsec usec msec sec
    [[ -z $WINDOW || $WINDOW == */* ]] || fail "$USAGE" "--filter-time is '$WINDOW'" "give A/B, as in 4s420ms/35s390ms"
    find_files
    nsys_year
    if [[ -n $WINDOW ]] && ((YEAR < 2023)); then
        fail "$FAILED" "nsys of $YEAR has no --filter-time" \
            "load a newer one, or export with it and use: ccltui stats FILE.sqlite --filter-time $WINDOW"
    fi
    set_names
    for report in "${FILES[@]}"; do
        extract "$report" || status=$FAILED
    done
    return "$status"
}

read_options() {
    FORMAT=column UNIT=usec WINDOW="" OUTPUT="" DRY_RUN=no INPUTS=()
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --dry-run) DRY_RUN=yes ;;
        --report | --format | --timeunit | --filter-time | --output)
            need_value "$1" $#
            read_value "$1" "$2"
            shift
            ;;
        -*) unknown_option "$1" ;;
        *) INPUTS+=("$1") ;;
        esac
        shift
    done
    ((${#INPUTS[@]})) || fail "$USAGE" "no report given" "name files of nsys, or the directory of a run"
}

read_value() {
    case $1 in
    --report) REPORTS=$2 ;;
    --format) FORMAT=$2 ;;
    --timeunit) UNIT=$2 ;;
    --filter-time) WINDOW=$2 ;;
    --output) OUTPUT=$2 ;;
    esac
}

find_files() {
    local input report
    declare -A seen=()
    FILES=()
    for input in "${INPUTS[@]}"; do
        if [[ -d $input ]]; then
            # Of a report and a link to it only the first is taken.
            while IFS= read -r -d '' report; do
                [[ -z ${seen[$(realpath -- "$report")]:-} ]] || continue
                seen[$(realpath -- "$report")]=yes
                FILES+=("$report")
            done < <(find -L "$input" -name '*.nsys-rep' -type f -print0 2>/dev/null | sort -z)
        elif [[ -r $input ]]; then
            FILES+=("$input")
        else
            fail "$USAGE" "no file $input" "name files of nsys, or the directory of a run"
        fi
    done
    ((${#FILES[@]})) || fail "$FAILED" "no .nsys-rep below ${INPUTS[*]}" "profile with PROFILE_MODE=nsys first"
}

# nsys_year: «NVIDIA Nsight Systems version 2023.4.4.54-…» is of 2023.
nsys_year() {
    local said
    command -v nsys >/dev/null || fail "$FAILED" "there is no nsys here" \
        "load its module; of .sqlite exports ccltui stats needs none"
    said=$(nsys --version)
    [[ $said =~ version\ ([0-9]{4})\. ]] || fail "$FAILED" "nsys does not tell its version: $said" "update it"
    YEAR=${BASH_REMATCH[1]}
}

set_names() {
    local name names=()
    IFS=, read -r -a names <<<"$REPORTS"
    NAMES=()
    for name in "${names[@]}"; do
        # Cluster guides have it, no nsys ever did.
        [[ $name != gpu-kern-summary ]] || name=cuda_gpu_kern_sum
        if ((YEAR < 2023)); then name=${OLD_NAMES[$name]:-${name//_/}}; fi
        NAMES+=("$name")
    done
}

# extract FILE: the exit status of nsys is 0 also for unknown reports, so its output is checked.
extract() {
    local file=$1 folder base said command target
    folder=${OUTPUT:-$(dirname -- "$file")}
    base=$(basename -- "$file")
    base=${base%.*}
    target=$folder/nsys_stats_$base.txt
    command=(nsys stats --quiet --timeunit "$UNIT" --format "$FORMAT")
    # An export left by an interrupted run would be taken for whole.
    [[ $file == *.sqlite ]] || command+=(--force-export=true)
    [[ -z $WINDOW ]] || command+=(--filter-time="$WINDOW")
    command+=(--report "$(IFS=, && printf '%s' "${NAMES[*]}")")
    # Without --output the reports would follow each other in one stream.
    [[ $FORMAT == column ]] || command+=(--force-overwrite=true --output "$folder/$base")
    command+=("$file")
    if [[ $DRY_RUN == yes ]]; then
        printf '%s\n' "$(shell_words "${command[@]}")$([[ $FORMAT != column ]] || printf ' >%s' "$(shell_words "$target")")"
        return
    fi
    mkdir -p -- "$folder" || fail "$FAILED" "$folder cannot be made" "give --output a folder you can write to"
    said=$("${command[@]}" 2>&1) || {
        log "error: nsys stats failed on $file: $(grep -m 1 . <<<"$said")"
        return 1
    }
    if grep -q 'could not be found' <<<"$said"; then
        log "error: nsys of $YEAR: $(grep -m 1 'could not be found' <<<"$said")"
        printf '    fix: %s\n' "nsys stats --help-reports lists what it has" >&2
        return 1
    fi
    if [[ $FORMAT == column ]]; then
        printf '%s\n' "$said" >"$target"
        log "wrote $target"
    else
        log "wrote $folder/${base}_REPORT.$FORMAT"
    fi
}

main "$@"
