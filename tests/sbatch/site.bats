#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2034,SC2317
# Sites: which profile is read, what it must say, what wins over it.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options site paths checks sbatch_command
}

@test "a plain Slurm is the site where nothing says otherwise" {
    load_site
    [ "$SITE_NAME" = generic ]
    [ "$CCLTUI_SITE" = "$CCLTUI_SBATCH/sites/generic.sh" ]
}

@test "a machine of NERSC is known by its own variable" {
    NERSC_HOST=perlmutter load_site
    [ "$SITE_NAME" = perlmutter ]
}

@test "another cluster is a copy of a profile" {
    sed 's/^SITE_NAME=.*/SITE_NAME=mine/; s/GPUS_PER_NODE:=4/GPUS_PER_NODE:=8/' \
        "$CCLTUI_SBATCH/sites/generic.sh" >"$BATS_TEST_TMPDIR/mine.sh"
    cd "$BATS_TEST_TMPDIR"
    CCLTUI_SITE=./mine.sh
    load_site
    [ "$SITE_NAME" = mine ]
    [ "$SITE_GPUS_PER_NODE" -eq 8 ]
    [ "$CCLTUI_SITE" = "$BATS_TEST_TMPDIR/mine.sh" ]
}

@test "the environment wins over the profile" {
    SITE_QOS=premium CCLTUI_SITE=perlmutter
    load_site
    [ "$SITE_QOS" = premium ]
}

@test "an unknown site is refused with those there are" {
    CCLTUI_SITE=nowhere run load_site
    [ "$status" -eq 2 ]
    [[ $output == *"no site profile"*"generic perlmutter"* ]]
}

@test "both profiles set the same variables" {
    of() { sed -nE 's/^(: "[$][{])?(SITE_[A-Z_]+):?=.*/\2/p' "$CCLTUI_SBATCH/sites/$1.sh" | sort; }
    [ "$(of generic | wc -l)" -gt 15 ]
    [ "$(of generic)" = "$(of perlmutter)" ]
}

@test "an account is needed where the site says so" {
    CCLTUI_SITE=perlmutter
    load_site
    run need_account
    [ "$status" -eq 2 ]
    [[ $output == *"no account to charge on perlmutter"*"set NERSC_ALLOCATION in sbatch/perlmutter/common.sh or export it"* ]]
    [[ $output == *"sacctmgr show assoc"* ]]
    NERSC_ALLOCATION=m1234
    load_site
    need_account
    [ "$SITE_ACCOUNT" = m1234 ]
}

# scripts_with_allocation: a copy of the scripts in whose common.sh an allocation is set, as guides say.
scripts_with_allocation() {
    cp -r "$CCLTUI_SBATCH" "$BATS_TEST_TMPDIR/sbatch"
    CCLTUI_SBATCH=$BATS_TEST_TMPDIR/sbatch
    sed -i 's/^export NERSC_ALLOCATION=.*/export NERSC_ALLOCATION="m4321"/' "$CCLTUI_SBATCH/perlmutter/common.sh"
}

@test "an allocation set in common.sh is that of every script" {
    scripts_with_allocation
    CCLTUI_SITE=perlmutter load_site
    need_account
    [ "$SITE_ACCOUNT" = m4321 ]
    run env -u NERSC_ALLOCATION CCLTUI_SITE=perlmutter SCRATCH=/s bash "$CCLTUI_SBATCH/lib/environment.sh"
    [[ $output == *"export SBATCH_ACCOUNT=m4321"* ]]
}

@test "an allocation of the environment wins over that of common.sh" {
    scripts_with_allocation
    NERSC_ALLOCATION=m1234 CCLTUI_SITE=perlmutter load_site
    [ "$SITE_ACCOUNT" = m1234 ]
}

@test "a batch script of one's own has the allocation of common.sh" {
    scripts_with_allocation
    run env -u NERSC_ALLOCATION -u CCLTUI_SBATCH bash -euo pipefail -c '
        source "$1/perlmutter/common.sh"; load_site; echo "$SITE_NAME $SITE_ACCOUNT"' - "$CCLTUI_SBATCH"
    [ "$output" = "perlmutter m4321" ]
}

@test "what the user exported for sbatch wins over the profile, and what activate.sh exported does not" {
    SBATCH_ACCOUNT=mine CCLTUI_SITE=perlmutter NERSC_ALLOCATION=theirs load_site
    [ "$SITE_ACCOUNT" = mine ]
    unset "${!SITE_@}"
    SBATCH_ACCOUNT=old CCLTUI_ACTIVATED_ACCOUNT=old CCLTUI_SITE=perlmutter NERSC_ALLOCATION=new load_site
    [ "$SITE_ACCOUNT" = new ]
    unset "${!SITE_@}"
    SITE_ACCOUNT=third
    SBATCH_ACCOUNT=mine CCLTUI_SITE=perlmutter load_site
    [ "$SITE_ACCOUNT" = third ]
}

@test "activation leaves what the user exported for sbatch" {
    run env SBATCH_ACCOUNT=mine SCRATCH=/s CCLTUI_SITE=perlmutter NERSC_ALLOCATION=theirs VENV_DIR=/absent \
        bash "$CCLTUI_SBATCH/lib/environment.sh"
    [ "$status" -eq 0 ]
    [[ $output != *_ACCOUNT=* ]]
    [[ $output == *"export SBATCH_QOS=regular"*"export CCLTUI_ACTIVATED_QOS=regular"* ]]
}

@test "modules are loaded although they use unset variables" {
    module() { printf '%s\n' "$2 $UNSET_BY_NOBODY" >>"$BATS_TEST_TMPDIR/loaded"; }
    CCLTUI_SITE=perlmutter load_site
    set -u
    load_modules
    [ "$(cat "$BATS_TEST_TMPDIR/loaded")" = "python 
cudatoolkit/12.9 " ]
    [[ $- == *u* ]]
}

@test "a module that cannot be loaded is named" {
    module() { return 1; }
    CCLTUI_SITE=perlmutter load_site
    run load_modules
    [ "$status" -eq 1 ]
    [[ $output == *"module python cannot be loaded"*"module spider python"* ]]
}

@test "without a module command that is said" {
    CCLTUI_SITE=perlmutter load_site
    run load_modules
    [ "$status" -eq 1 ]
    [[ $output == *"there is no module command"* ]]
}

@test "paths are absolute, because a job starts elsewhere" {
    load_site
    cd "$BATS_TEST_TMPDIR"
    TRACE_BASE=t VENV_DIR=v HF_ASSETS_ROOT=a
    set_paths
    [ "$TRACE_BASE $VENV_DIR $HF_ASSETS_ROOT" = "$PWD/t $PWD/v $PWD/a" ]
}

@test "a site without a shared file system is refused" {
    CCLTUI_SITE=perlmutter load_site
    SITE_SCRATCH=""
    run set_paths
    [ "$status" -eq 2 ]
    [[ $output == *"set SCRATCH"* ]]
}

@test "the environment of a site is printed as commands" {
    run env SCRATCH=/scratch CCLTUI_SITE=perlmutter NERSC_ALLOCATION="m 1" VENV_DIR=/absent \
        bash "$CCLTUI_SBATCH/lib/environment.sh"
    [ "$status" -eq 0 ]
    [[ $output == *"export SBATCH_ACCOUNT=m\\ 1"* ]]
    # Each workload names the nodes that it needs, and a variable would win over it.
    [[ $output != *SBATCH_CONSTRAINT* ]]
    [[ $output == *"export TRACE_BASE=/scratch/ccl-bench-traces"* ]]
    [[ $output == *"module load cudatoolkit/12.9"* ]]
    [[ $output == *"no Python environment in /absent yet"* ]]
}

@test "a failed activation leaves the shell alive and unchanged" {
    run bash -c 'CCLTUI_SITE=nowhere source "$CCLTUI_SBATCH/activate.sh"; echo "alive ${VENV_DIR:-unchanged}"'
    [ "$status" -eq 0 ]
    [[ $output == *"nothing was changed"*"alive unchanged"* ]]
}

@test "a batch script of one's own has what every run.sbatch has" {
    run env -u CCLTUI_SBATCH SLURM_SUBMIT_DIR="$CCLTUI_SBATCH/.." bash -euo pipefail -c '
        source "$SLURM_SUBMIT_DIR/sbatch/perlmutter/common.sh"
        load_site
        echo "$SITE_NAME $(declare -F run_workload set_distributed link_traces | tr "\n" " ")"'
    [ "$status" -eq 0 ]
    [ "$output" = "perlmutter run_workload set_distributed link_traces " ]
}
