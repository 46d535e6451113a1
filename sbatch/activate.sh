# shellcheck shell=bash
# Source this on a login node: modules, environment, paths, caches and what sbatch has to ask for.
#
#     CCLTUI_SITE=NAME source sbatch/activate.sh

if ccltui_commands=$(bash "$(dirname -- "${BASH_SOURCE[0]:-$0}")/lib/environment.sh"); then
    eval "$ccltui_commands"
else
    printf '%s\n' 'activate.sh: nothing was changed' >&2
fi
unset ccltui_commands
