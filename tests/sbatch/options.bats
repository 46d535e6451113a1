#!/usr/bin/env bats
# shellcheck disable=SC2016
# Words: how arguments are read, and how commands and failures are printed.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options
}

@test "both spellings of an option are one" {
    split_options --a=1 --b 2 --c= plain
    [ "${WORDS[*]}" = "--a 1 --b 2 --c  plain" ]
    [ "${#WORDS[@]}" -eq 7 ]
}

@test "what follows a lone -- is left as it is" {
    split_options --a=1 -- --b=2 "c d"
    [ "${#WORDS[@]}" -eq 5 ]
    [ "${WORDS[3]}" = "--b=2" ]
    [ "${WORDS[4]}" = "c d" ]
}

@test "a command is printed so that it can be typed" {
    [ "$(shell_words sbatch --time=1:00 "a b" "it's" '$x')" = "sbatch --time=1:00 'a b' 'it'\''s' '\$x'" ]
}

@test "a failure names its fix and keeps standard output clean" {
    run bash -c 'source "$CCLTUI_SBATCH/lib/log.sh"; fail 4 "it broke" "mend it" 2>/dev/null'
    [ "$status" -eq 4 ]
    [ "$output" = "" ]
    run fail 2 "it broke" "mend it"
    [ "$output" = "test: error: it broke
    fix: mend it" ]
}

@test "in a job every line has a time" {
    SLURM_JOB_ID=7 run log hello
    [[ $output =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}\ [0-9:]{8}\ test:\ hello$ ]]
}

@test "a choice must be one of those offered" {
    need_one_of --profile nsys torch nsys
    run need_one_of --profile both torch nsys
    [ "$status" -eq 2 ]
    [[ $output == *"--profile is 'both'"*"choose one of: torch nsys"* ]]
}

@test "a count is a whole number from 1 on" {
    need_count --nodes 16
    for wrong in 0 -1 1.5 "" "1 2" 08x 99999999; do
        run need_count --nodes "$wrong"
        [ "$status" -eq 2 ]
    done
}

@test "every command tells what it is for" {
    for command in setup_env.sh submit_all.sh lib/submit.sh lib/verify_traces.sh lib/environment.sh \
        nsys/profile.sh nsys/stats.sh perlmutter/setup_env.sh perlmutter/submit_all.sh; do
        case $command in
        lib/submit.sh) run bash "$CCLTUI_SBATCH/$command" "$CCLTUI_SBATCH"/workloads/llama*tp* --help ;;
        *) run bash "$CCLTUI_SBATCH/$command" --help ;;
        esac
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == *. ]]
        [[ $output != *"#!"* && $output != *"set -euo"* ]]
    done
}

@test "no command takes an option that it does not know" {
    for command in setup_env.sh lib/verify_traces.sh lib/environment.sh nsys/profile.sh nsys/stats.sh; do
        run bash "$CCLTUI_SBATCH/$command" --nonsense
        [ "$status" -eq 2 ]
        [[ $output == *"unknown argument --nonsense"* ]]
    done
}
