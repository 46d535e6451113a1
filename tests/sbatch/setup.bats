#!/usr/bin/env bats
# shellcheck disable=SC2016
# The environment: which program installs, and from which index PyTorch comes.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log
    export SCRATCH=$BATS_TEST_TMPDIR VENV_DIR=$BATS_TEST_TMPDIR/venv
    SETUP=$CCLTUI_SBATCH/setup_env.sh
    # All the machine's programs but uv, which may be installed.
    ln -s /usr/bin/* "$TOOLS/"
    rm -f "$TOOLS/uv"
    PATH=$(dirname "$(command -v python3)"):$TOOLS
    if command -v uv >/dev/null; then skip "uv is beside python3"; fi
}

@test "without uv the environment is one of venv, and pip brings the uv that knows the index" {
    run "$SETUP" --dry-run
    [ "$status" -eq 0 ]
    [[ $output == *"python3 -P -m venv $VENV_DIR"* ]]
    [[ $output == *"$VENV_DIR/bin/python -P -m pip install uv"* ]]
    [[ $output == *"$VENV_DIR/bin/python -P -m uv pip install --python $VENV_DIR/bin/python --torch-backend cu129 torch"* ]]
    [[ $output == *"-m uv pip install --python $VENV_DIR/bin/python --constraint "*"/workloads/torchtitan-0.2.2.lock"*" torchtitan==0.2.2 "* ]]
}

@test "pip alone installs from an index that is named" {
    TORCH_INDEX=https://index.example/cu129 run "$SETUP" --dry-run
    [ "$status" -eq 0 ]
    [[ $output != *" uv "* ]]
    [[ $output == *"$VENV_DIR/bin/python -P -m pip install --index-url https://index.example/cu129 torch"* ]]
    [[ $output == *"$VENV_DIR/bin/python -P -m pip install --constraint "*".lock"*" torchtitan==0.2.2 "* ]]
}

@test "with uv, uv makes the environment and chooses the index" {
    stand_in uv 'exit 9'
    run "$SETUP" --dry-run
    [ "$status" -eq 0 ]
    [[ $output == *"uv venv --python"* ]]
    [[ $output == *"uv pip install --python $VENV_DIR/bin/python --torch-backend cu129 torch"* ]]
    [[ $output != *"pip install uv"* ]]
}

@test "a uv that pip cannot install is said with what helps" {
    mkdir -p "$VENV_DIR/bin"
    printf '#!/usr/bin/env bash\n[[ $* != *"pip install uv"* ]]\n' >"$VENV_DIR/bin/python"
    chmod +x "$VENV_DIR/bin/python"
    run "$SETUP"
    [ "$status" -eq 1 ]
    [[ $output == *"pip could not install uv into $VENV_DIR"*"set TORCH_INDEX"* ]]
}
