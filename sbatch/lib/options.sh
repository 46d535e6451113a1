# shellcheck shell=bash
# Arguments: --name value and --name=value are the same.

# split_options WORD...: set WORDS to the arguments, with --name=value before a lone -- split in two.
split_options() {
    WORDS=()
    while (($#)); do
        case $1 in
        --)
            WORDS+=("$@")
            return
            ;;
        --*=*) WORDS+=("${1%%=*}" "${1#*=}") ;;
        *) WORDS+=("$1") ;;
        esac
        shift
    done
}

# need_value NAME COUNT: fail if option NAME has no value; COUNT arguments are left.
need_value() {
    (($2 >= 2)) || fail "$USAGE" "$1 needs a value" "see --help"
}

# need_one_of NAME VALUE CHOICE...
need_one_of() {
    local name=$1 value=$2 choice
    shift 2
    for choice in "$@"; do
        [[ $value != "$choice" ]] || return 0
    done
    fail "$USAGE" "$name is '$value'" "choose one of: $*"
}

# need_count NAME VALUE: a whole number from 1.
need_count() {
    [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || fail "$USAGE" "$1 is '$2'" "give a whole number from 1 on"
}

unknown_option() {
    fail "$USAGE" "unknown argument $1" "see --help"
}
