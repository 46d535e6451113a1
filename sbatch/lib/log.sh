# shellcheck shell=bash
# Messages are written to standard error; standard output is for job ids, commands and lists.

PROGRAM=${PROGRAM:-${0##*/}}

log() {
    printf '%s%s: %s\n' "${SLURM_JOB_ID:+$(date '+%F %T ')}" "$PROGRAM" "$*" >&2
}

warn() {
    log "warning: $*"
}

# fail STATUS WHAT FIX: what is wrong, and what to do about it, in one sentence each.
fail() {
    log "error: $2"
    [[ -z ${3:-} ]] || printf '    fix: %s\n' "$3" >&2
    exit "$1"
}

# The statuses of every script here.
# shellcheck disable=SC2034
readonly FAILED=1 USAGE=2 CANNOT=3 INCOMPLETE=4

# help_text FILE: the comment at the top of a script is its help.
help_text() {
    sed -n '2,/^[^#]/ { /^#/! d; s/^# \{0,1\}//; p; }' "$1"
}

# shell_words WORD...: print the arguments quoted for a shell.
shell_words() {
    local word words=()
    for word in "$@"; do
        if [[ $word =~ ^[A-Za-z0-9_./:=,%+@-]+$ ]]; then words+=("$word"); else words+=("${word@Q}"); fi
    done
    printf '%s\n' "${words[*]}"
}
