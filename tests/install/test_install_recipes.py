"""What distributions, shells and hosts of repositories read: recipes, completions, actions."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ccltui import cli

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = {one.name: one for one in map(Requirement, PROJECT["dependencies"])}
OF_CONDA = {"msgspec-python": "msgspec", "python-isal": "isal"}
"""Names of conda-forge that are not those of the project."""


def needs(*programs: str) -> str:
    """The first of these programs that is installed; the test is skipped where none is."""
    found = next(filter(None, map(shutil.which, programs)), None)
    if found is None:
        pytest.skip(f"needs {' or '.join(programs)}, which is not installed here")
    return found


def output(*command: str | Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_the_recipe_of_conda_requires_what_the_project_requires() -> None:
    recipe = yaml.safe_load((PACKAGING / "conda" / "recipe.yaml").read_text())

    found: dict[str, SpecifierSet] = {}
    for entry in recipe["requirements"]["run"]:
        name, _, versions = (entry if isinstance(entry, str) else entry["then"]).partition(" ")
        found[OF_CONDA.get(name, name)] = SpecifierSet(versions)
    assert recipe["context"]["version"] == PROJECT["version"]
    assert found.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert found == {name: one.specifier for name, one in REQUIRED.items()}
    conditional = [one["if"] for one in recipe["requirements"]["run"] if isinstance(one, dict)]
    assert conditional == ['match(python, "<3.14")']


def test_the_package_of_spack_requires_what_the_project_requires() -> None:
    path = PACKAGING / "spack" / "packages" / "py_ccltui" / "package.py"
    calls = [
        (node.func.id, [one.value for one in node.args if isinstance(one, ast.Constant)])
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]

    needed = [str(given[0]) for name, given in calls if name == "depends_on"]
    specs = {name.removeprefix("py-"): rest for name, _, rest in (n.partition("@") for n in needed)}
    expected = {name: spack_range(one.specifier) for name, one in REQUIRED.items()}
    assert ("version", [PROJECT["version"]]) in calls
    assert specs.pop("python") == spack_range(SpecifierSet(PROJECT["requires-python"]))
    assert {name: specs[name] for name in expected} == expected
    assert set(specs) == {*expected, "c", "setuptools", "cython"}
    assert yaml.safe_load((PACKAGING / "spack" / "repo.yaml").read_text())["repo"]["namespace"]


def spack_range(versions: SpecifierSet) -> str:
    """``>=8.2,<9`` as Spack writes it: ``8.2:8``."""
    bounds = {one.operator: one.version for one in versions}
    end = str(int(bounds["<"]) - 1) if "<" in bounds else ""
    return f"{bounds['>=']}:{end}"


def test_the_easyconfig_has_every_dependency_in_a_version_that_is_accepted() -> None:
    (path,) = (PACKAGING / "easybuild").glob("*.eb")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), path, "exec"), names)

    given = {re.sub(r"[-_]", "-", name.lower()): v for name, v, *_ in names["exts_list"]}
    given |= {name.lower(): version for name, version in names["dependencies"]}
    of_bundles = {"numpy": "scipy-bundle", "jinja2": "python-bundle-pypi"}
    assert path.name == f"ccltui-{PROJECT['version']}-gfbf-2025b.eb"
    assert names["version"] == given.pop("ccltui") == PROJECT["version"]
    assert given["python"] in SpecifierSet(PROJECT["requires-python"])
    for name, one in REQUIRED.items():
        assert name in of_bundles or given[name] in one.specifier, name
    assert set(of_bundles.values()) <= set(given)


def test_the_module_file_sets_paths_and_is_of_this_version(tmp_path: Path) -> None:
    folder = PACKAGING / "modulefiles"
    assert [path.stem for path in folder.rglob("*.lua")] == [PROJECT["version"]]
    luac = needs("luac", "luac5.4", "luac5.3", "luac5.1")
    output(luac, "-p", *folder.rglob("*.lua"))
    lmod = Path("/usr/share/lmod/lmod/libexec/lmod")
    if not lmod.exists():
        pytest.skip("needs lmod, which is not installed here")
    env = {"MODULEPATH": str(folder), "CCLTUI_ROOT": str(tmp_path), "LMOD_QUIET": "yes"}

    shell = subprocess.run(
        [lmod, "bash", "load", "ccltui"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=60,
    ).stdout

    assert re.search(rf'PATH="?{tmp_path}/bin:', shell), shell
    assert f"{tmp_path}/share/man" in shell


def test_recipes_of_a_release_have_the_checksum_of_the_sdist(tmp_path: Path) -> None:
    (tmp_path / "sdist").write_bytes(b"abc")

    output(sys.executable, PACKAGING / "recipes.py", tmp_path / "sdist", tmp_path / "out")

    text = (tmp_path / "out/spack/packages/py_ccltui/package.py").read_text()
    assert "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" in text
    assert not [p for p in (tmp_path / "out").rglob("*.*") if "SHA256_OF" in p.read_text()]


def test_the_least_versions_are_those_of_the_project() -> None:
    lines = output(sys.executable, PACKAGING / "minimum_versions.py").splitlines()

    assert len(lines) == len(REQUIRED)
    for line in lines:
        one = Requirement(line)
        (bound,) = one.specifier
        assert f">={bound.version}" in {str(part) for part in REQUIRED[one.name].specifier}


CASES = (
    ("ccltui dem", "demo"),
    ("ccltui explain --form", "--format"),
    ("ccltui explain --format ", "json"),
    ("ccltui card lint --traces /nowhere --conf", "--config"),
    ("ccltui /tmp --list-m", "--list-metrics"),
    ("ccltui --metric straggler_l", "straggler_lag"),
)
"""A command line that is being typed, and what a shell proposes."""


@pytest.mark.parametrize(("typed", "proposed"), CASES)
def test_bash_proposes_verbs_options_and_values(typed: str, proposed: str) -> None:
    code = """
source "$1"
IFS=' ' read -ra COMP_WORDS <<<"$2"
[[ $2 == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_ccltui ccltui "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
    file = PACKAGING / "completions" / "ccltui"
    found = output(needs("bash"), "--norc", "-c", code, "bash", file, typed).splitlines()

    assert proposed in [line.strip() for line in found]


@pytest.mark.parametrize(("typed", "proposed"), [*CASES, ("ccltui /us", "/usr/")])
def test_fish_proposes_verbs_options_values_and_folders(typed: str, proposed: str) -> None:
    code = f"source {PACKAGING}/completions/ccltui.fish; complete -C '{typed}'"

    found = output(needs("fish"), "--no-config", "-c", code).splitlines()

    assert proposed in [line.partition("\t")[0] for line in found]


def test_zsh_proposes_verbs_options_and_folders() -> None:
    zsh = needs("zsh")
    spec = importlib.util.spec_from_file_location("terminal", ROOT / "tests/e2e/terminal.py")
    assert spec is not None
    assert spec.loader is not None
    sys.path.append(str(ROOT / "tests" / "e2e"))
    try:
        terminal = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(terminal)
    finally:
        sys.path.remove(str(ROOT / "tests" / "e2e"))
    with terminal.session(zsh, "-f", "-i", cwd=Path("/")) as shell:
        shell.press(f"fpath=({PACKAGING}/completions $fpath); autoload -U compinit\r")
        shell.press("compinit -u -D; PS1='re''ady> '\r")
        shell.wait_for("ready> ")
        for typed, proposed in (
            ("ccltui dem", "ccltui demo "),
            ("ccltui explain --form", "explain --format "),
            ("ccltui card ini", "card init "),
            ("ccltui us", "ccltui usr/"),
        ):
            shell.press(f"clear\r{typed}\t")
            shell.wait_for(proposed)
            shell.press("\x03")


def test_the_manual_is_formatted_without_a_warning() -> None:
    page = PACKAGING / "man" / "ccltui.1"
    missing = [o for a in cli.parser()._actions for o in a.option_strings if not stated(o, page)]
    assert missing == []
    if (mandoc := shutil.which("mandoc")) is not None:
        output(mandoc, "-T", "lint", "-W", "warning", page)
    else:
        text = output(needs("man"), "--warnings", "-l", page, env={"MANWIDTH": "80", "LC_ALL": "C"})
        assert "ccltui explain DIR" in text


def stated(option: str, page: Path) -> bool:
    return option.replace("-", "\\-") in page.read_text()


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())

    assert str(citation["version"]) == PROJECT["version"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_what_the_host_of_a_repository_reads_is_yaml(path: Path) -> None:
    document = yaml.safe_load(path.read_text())

    assert isinstance(document, dict)
    for step in (s for job in document.get("jobs", {}).values() for s in job["steps"]):
        assert ("run" in step) != ("uses" in step), step


def test_templates_ask_for_the_bundle() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        if path.name != "config.yml":
            assert "ccltui doctor --bundle FILE.zip" in path.read_text()


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a runner, with the commands of this environment and the demo job."""
    folder = tmp_path_factory.mktemp("runner")
    (folder / "ccltui").mkdir()
    (folder / "ccltui" / "bin").symlink_to(Path(sys.executable).parent)
    output(folder / "ccltui" / "bin" / "ccltui", "demo", folder / "job", "--no-open")
    return folder


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ("straggler_lag.p95_lag_us > 500\n", 4),
        ("straggler_lag.p95_lag_us > 1e9\n\n  iter_time > 1e9\n", 0),
        ("throughput_tokens.nothing > 1\n", 3),
    ],
)
def test_the_action_ends_as_the_gate_does(
    runner: Path, conditions: str, status: int, tmp_path: Path
) -> None:
    settings = {
        "RUNNER_TEMP": str(runner),
        "TRACES": str(runner / "job"),
        "CONDITIONS": conditions,
        "JUNIT": str(tmp_path / "gate.xml"),
        "REPORT": "",
        "BASELINE": "",
    }
    done = subprocess.run(
        ["bash", ROOT / ".github/actions/gate/gate.sh"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        timeout=120,
    )

    assert done.returncode == status, done.stderr
    assert ("::error" in done.stderr) == (status == 4)
    assert ("::warning" in done.stderr) == (status == 3)
    assert (tmp_path / "gate.xml").exists()


@pytest.mark.parametrize("folder", ["demo", "-o"])
def test_the_action_takes_folders_named_like_verbs_and_options(
    runner: Path, folder: str, tmp_path: Path
) -> None:
    (tmp_path / folder).symlink_to(runner / "job")
    settings = {"RUNNER_TEMP": str(runner), "TRACES": folder, "CONDITIONS": "step_time > 3"}
    done = subprocess.run(
        ["bash", ROOT / ".github/actions/gate/gate.sh"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **settings, "BASELINE": folder, "REPORT": "report.html", "JUNIT": ""},
        timeout=120,
    )

    assert done.returncode in (0, 3), done.stderr
    assert "unrecognized" not in done.stderr
    assert (tmp_path / "report.html").exists()


def test_the_inputs_of_the_action_reach_its_script_as_variables() -> None:
    """An input in the text of a script would be run by the shell."""
    action = yaml.safe_load((ROOT / ".github/actions/gate/action.yml").read_text())

    steps = action["runs"]["steps"]
    used = {name for step in steps for name in re.findall(r"inputs\.([\w-]+)", json.dumps(step))}
    assert used == set(action["inputs"])
    assert not any("${{" in step["run"] for step in steps)


def test_the_skill_names_commands_and_options_that_exist() -> None:
    text = (ROOT / ".agents" / "skills" / "ccltui" / "SKILL.md").read_text()
    _, head, body = text.split("---\n", 2)
    manual = (PACKAGING / "man" / "ccltui.1").read_text().replace("\\-", "-")

    assert yaml.safe_load(head)["name"] == "ccltui"
    assert len(yaml.safe_load(head)["description"]) < 1024
    for verb in re.findall(r"`ccltui ([a-z][a-z-]+)", body):
        assert f"ccltui {verb} " in manual, verb
    for option in re.findall(r" (--[a-z-]+)", body):
        assert option in manual, option


@pytest.mark.parametrize("script", sorted(PACKAGING.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_without_arguments_prints_its_usage(script: Path) -> None:
    done = subprocess.run([script], check=False, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert f"packaging/{script.name}" in done.stderr


def test_setup_refuses_an_unknown_kind_of_wheel() -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "CCLTUI_WHEEL": "abi4"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "CCLTUI_WHEEL=abi4 is none of abi3, pure and require" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with an apostrophe in its path that has the Makefile, and no package."""
    folder = tmp_path / "it's mine"
    folder.mkdir()
    (folder / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    for name in ("pyproject.toml", "setup.py"):
        (folder / name).touch()
    return folder


def make_demo(checkout: Path, python: str) -> subprocess.CompletedProcess[str]:
    """Run make demo with a script of the shell as Python."""
    (checkout / "python").write_text(f"#!/bin/sh\n{python}\n")
    (checkout / "python").chmod(0o755)
    return subprocess.run(
        ["make", "demo", "PYTHON=./python"],
        check=False,
        capture_output=True,
        text=True,
        cwd=checkout,
        timeout=60,
    )


def test_an_older_python_begins_no_environment(checkout: Path) -> None:
    older = (
        f'shift; exec {shlex.quote(sys.executable)} -c "import sys; sys.version_info = (3, 9); $1"'
    )

    done = make_demo(checkout, older)

    assert done.returncode == 2
    assert "needs Python 3.11 or newer" in done.stderr
    assert not (checkout / ".venv").exists()


def test_an_environment_without_pip_is_begun_again(checkout: Path) -> None:
    without_pip = (
        '[ "$1" = -c ] && exit 0\n'
        "mkdir -p .venv/bin && cp python .venv/bin/python && echo x >>begun && exit 1"
    )

    done = [make_demo(checkout, without_pip) for _ in range(2)]

    assert [one.returncode for one in done] == [2, 2]
    assert (checkout / "begun").read_text() == "x\nx\n"
