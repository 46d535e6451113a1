# shellcheck shell=bash
# Functions of the scripts beside this one, and where traces are looked for.

LAYOUT=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${PYTHON:-@PYTHON@}

# traces_of PATTERN: fill FOUND with the trace directories whose name matches: in trace_collection,
# else where jobs write them.
traces_of() {
    local folder name
    declare -A taken=()
    FOUND=()
    for folder in "$LAYOUT"/trace_collection/$1 "${SCRATCH:-$LAYOUT}"/ccl-bench-traces/$1; do
        name=${folder##*/}
        [[ -d $folder && -z ${taken[$name]:-} ]] || continue
        has_traces "$folder" || continue
        taken[$name]=yes
        FOUND+=("$folder")
    done
    ((${#FOUND[@]})) && return
    echo "${0##*/}: error: no traces of $1 in $LAYOUT/trace_collection" >&2
    echo "    fix: name trace directories, or move them there; run.sh of a workload records" >&2
    exit 1
}

# has_traces FOLDER: whether it holds more than the files of a workload.
has_traces() {
    find -L "$1" \( -name '*.json' -o -name '*.json.gz' -o -name '*.json.zst' \
        -o -name '*.sqlite' -o -name '*.nsys-rep' -o -name '*.pftrace*' \) -print -quit | grep -q .
}

# metric_of_each NAME [DIR...]: its document for each directory; status: the worst.
metric_of_each() {
    local name=$1 status=0 one folder
    shift
    FOUND=("$@")
    (($#)) || traces_of '*'
    for folder in "${FOUND[@]}"; do
        ((${#FOUND[@]} == 1)) || echo "# $folder"
        one=0
        "$PYTHON" -P "$LAYOUT/tools/main.py" --trace "$folder" --metric "$name" || one=$?
        ((one <= status)) || status=$one
    done
    return "$status"
}

# run_metrics PATTERN [OUTPUT]: every metric of each of its directories, into OUTPUT/NAME.json, and
# a table of all.
run_metrics() {
    local folder output=${2:-$LAYOUT/results} status=0
    traces_of "$1"
    mkdir -p -- "$output"
    for folder in "${FOUND[@]}"; do
        "$PYTHON" -P "$LAYOUT/tools/main.py" --trace "$folder" --metric all --output-json \
            >"$output/${folder##*/}.json" 2>"$output/${folder##*/}.log" || status=1
        echo "$output/${folder##*/}.json"
    done
    "$PYTHON" -P -m ccltui metrics-report "${FOUND[@]}" || status=1
    return "$status"
}
