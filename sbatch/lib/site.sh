# shellcheck shell=bash
# A site is one file of settings; see sites/generic.sh for what each of them means.

# load_site: read the profile that CCLTUI_SITE names, or that this machine suggests.
load_site() {
    local profile=${CCLTUI_SITE:-${NERSC_HOST:-generic}}
    [[ $profile == */* ]] || profile=$CCLTUI_SBATCH/sites/$profile.sh
    [[ -r $profile ]] || fail "$USAGE" "no site profile $profile" \
        "set CCLTUI_SITE to one of: $(site_names), or to the path of your own copy of one"
    profile=$(cd -- "$(dirname -- "$profile")" && pwd)/${profile##*/}
    # shellcheck disable=SC2317
    site_environment() { :; }
    # Profiles that were copied before these were known lack them.
    SITE_NETWORK_MODULES=() SITE_CONTAINER=()
    take_sbatch_variables
    # shellcheck source=../sites/generic.sh
    source "$profile"
    export CCLTUI_SITE=$profile
    need_one_of SITE_DEVICE "$SITE_DEVICE" cuda cpu
    need_count SITE_GPUS_PER_NODE "$SITE_GPUS_PER_NODE"
    need_count SITE_CPUS_PER_TASK "$SITE_CPUS_PER_TASK"
}

# take_sbatch_variables: what the user exported for sbatch wins over the profile. What activate.sh exported
# is the profile's own, and may be that of another site or allocation by now.
take_sbatch_variables() {
    local name variable activated site
    for name in ACCOUNT PARTITION QOS CONSTRAINT; do
        variable=SBATCH_$name activated=CCLTUI_ACTIVATED_$name
        [[ -n ${!variable:-} && ${!variable} != "${!activated:-}" ]] || continue
        for site in "SITE_$name" "SITE_ANALYSIS_$name"; do
            [[ -n ${!site:-} ]] || printf -v "$site" '%s' "${!variable}"
        done
    done
}

site_names() {
    local profile names=()
    for profile in "$CCLTUI_SBATCH"/sites/*.sh; do
        profile=${profile##*/}
        names+=("${profile%.sh}")
    done
    printf '%s' "${names[*]}"
}

# need_account: refuse here what the queue would refuse later, or charge to somebody else.
need_account() {
    [[ $SITE_ACCOUNT_NEEDED != yes || -n ${SITE_ACCOUNT:-} ]] ||
        fail "$USAGE" "no account to charge on $SITE_NAME" \
            "${SITE_ACCOUNT_FROM:-set SITE_ACCOUNT}, or give --account; yours are listed by: $SITE_ACCOUNT_LIST"
}

# load_modules [NAME...]: those of the site where none is named. Module commands use unset variables and
# fail often, so both are allowed.
load_modules() {
    (($#)) || set -- "${SITE_MODULES[@]}"
    (($#)) || return 0
    set +u
    if ! command -v module >/dev/null; then
        set -u
        fail "$FAILED" "$SITE_NAME loads modules, but there is no module command" \
            "run it in a login shell, or empty SITE_MODULES in $CCLTUI_SITE"
    fi
    local name
    for name in "$@"; do
        module load "$name" || {
            set -u
            fail "$FAILED" "module $name cannot be loaded" \
                "see what there is with: module spider ${name%%/*}; then change its name in $CCLTUI_SITE"
        }
    done
    set -u
}
