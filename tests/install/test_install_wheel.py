"""What users install: an sdist, the wheel made from it, and commands in an empty environment."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from empty_environment import make_environment, pip
from msgspec import Struct
from once import MakeOnce

from ccltui.slow_path import EVERY

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ccltui", "parsers", "metrics")
SOURCES = (".pyx", ".pxd", ".pxi")
LARGEST_BYTES = 3_200_000  # 3.0 MB, of which 6.4 MB of Python compress to 2.15
SHARED = {
    "share/bash-completion/completions/ccltui",
    "share/zsh/site-functions/_ccltui",
    "share/fish/vendor_completions.d/ccltui.fish",
    "share/man/man1/ccltui.1",
}
MARK = "the slower path is used"


def with_compiler(folder: Path) -> dict[str, str]:
    """A compiler that does not optimize; skips where there is none.

    Four fifths of the time of the build is optimization. It changes no content of the wheel, and
    all other tests run the optimized modules of the checkout.
    """
    compilers = map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))
    compiler = next(filter(None, compilers), None)
    if compiler is None:
        pytest.skip("no C compiler here: only installs without one are tested")
    quick = folder / "quick-cc"
    quick.write_text(f'#!/bin/sh\nexec {shlex.quote(compiler)} "$@" -O0\n')
    quick.chmod(0o755)
    return dict(os.environ) | {"CC": str(quick)}


def without_compiler(folder: Path) -> dict[str, str]:
    """No program at all on the path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "LDSHARED")}
    return kept | {"PATH": str(folder)}


def broken_compiler(_folder: Path) -> dict[str, str]:
    """A compiler that fails on everything."""
    return dict(os.environ) | {"CC": shutil.which("false") or "/bin/false"}


@pytest.fixture(scope="module")
def sdist(once: MakeOnce) -> Path:
    """The sdist of a checkout that was installed before, with what that leaves."""
    return next(once("sdist", make_sdist).glob("*.tar.gz"))


def make_sdist(folder: Path) -> None:
    checkout = folder / "checkout"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
        shutil.copytree(ROOT / package, checkout / package, ignore=ignored, symlinks=True)
    for file in (*ROOT.glob("*.toml"), *ROOT.glob("*.in"), *ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy2(file, checkout)
    shutil.copy2(ROOT / "setup.py", checkout)
    shutil.copytree(ROOT / "packaging", checkout / "packaging")
    for name in ("_scanner.c", "_scanner.cpython-311-x86_64-linux-gnu.so"):
        (checkout / "parsers" / "kineto" / "scanner" / name).touch()
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=checkout, capture_output=True)


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked once: Cython translates its sources in the first build only.

    What it made of the same sources for this checkout is taken: to translate them is 12 CPU-s.
    """
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        # an argument of its own from Python 3.11.4 on
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    (sources,) = folder.iterdir()
    for module in sources.rglob("*.pyx"):
        translated = (ROOT / module.relative_to(sources)).with_suffix(".c")
        if translated.exists() and is_translation(translated):
            shutil.copy(translated, module.with_suffix(".c"))
    return sources


def add_compiled_modules(sources: Path) -> None:
    """Put the modules of this checkout where a build finds them up to date, if it has them.

    It compiled the same sources, and all other tests run them: to compile them is 15 CPU-s.
    """
    ending = str(sysconfig.get_config_var("EXT_SUFFIX"))
    library = f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for name in EVERY:
        module = Path(*name.split("."))
        ours, translated = ((ROOT / module).with_suffix(one) for one in (ending, ".c"))
        if not (ours.exists() and translated.exists() and is_translation(translated)):
            continue
        if ours.stat().st_mtime >= translated.stat().st_mtime:
            place = (sources / "build" / library / module).with_suffix(ending)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ours, place)


def is_translation(translated: Path) -> bool:
    """Whether this Cython made it of the sources beside it as they are."""
    sources = [one for one in translated.parent.iterdir() if one.suffix in SOURCES]
    newest = max(one.stat().st_mtime for one in sources)
    with translated.open() as file:
        generator = file.readline()
    return f"Cython {version('Cython')} " in generator and translated.stat().st_mtime > newest


@pytest.fixture(scope="module")
def pure_wheel(unpacked: Path, once: MakeOnce) -> Path:
    """The wheel that is built where there is no compiler."""

    def make(folder: Path) -> None:
        (folder / "empty").mkdir()
        wheel_of(unpacked, folder, without_compiler(folder / "empty"))

    return next(once("pure_wheel", make).glob("*.whl"))


class Demo(Struct, frozen=True):
    """The demo job, and what this checkout prints of it."""

    path: Path
    numbers: str

    @property
    def arguments(self) -> tuple[str | Path, ...]:
        """The command line that prints the numbers."""
        return (self.path, "--metric", "all", "--format", "json", "--no-cache")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Measured once for all installs, which write the job anew."""
    path, ours = tmp_path_factory.mktemp("demo") / "job", Path(sys.executable).parent
    output(ours, "demo", path, "--no-open")
    return Demo(path, output(ours, *Demo(path, "").arguments)[0])


def test_the_sdist_holds_what_the_wheel_is_compiled_from_and_nothing_generated(
    sdist: Path,
) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    # The links of a checkout lead to folders beside ccltui; an sdist has these in ccltui.
    expected = {
        str((Path(folder) / name).relative_to(ROOT))
        for folder, _, files in os.walk(ROOT / "ccltui", followlinks=True)
        for name in files
        if Path(name).suffix in {".py", ".pyi", ".tcss", ".html", ".css", *SOURCES}
        or name == "py.typed"
    }

    assert expected - names == set()
    assert [name for name in names if name.endswith((".c", ".so", ".pyc"))] == []


def test_a_wheel_of_the_sdist_works_in_an_empty_environment(
    unpacked: Path, demo: Demo, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    env = with_compiler(tmp_path / "empty")
    wheel = wheel_of(unpacked, tmp_path / "wheel", env, before=add_compiled_modules)
    check_wheel(wheel, demo, tmp_path / "environment", env, compiled=True)


def test_the_wheel_of_the_limited_api_works_on_every_python_that_is_here(
    unpacked: Path, demo: Demo, tmp_path: Path
) -> None:
    """Its build fails where a module calls what the limited API lacks."""
    (tmp_path / "empty").mkdir()
    env = with_compiler(tmp_path / "empty") | {"CCLTUI_WHEEL": "abi3"}
    wheel = wheel_of(unpacked, tmp_path / "wheel", env)

    assert "-cp311-abi3-linux_" in wheel.name
    check_wheel(wheel, demo, tmp_path / "environment", env, compiled=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "files")
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    assert all(name.endswith(".abi3.so") for name in libraries)
    for minor in (12, 13, 14, 15):
        if (python := working(f"python3.{minor}")) is not None:
            for name in libraries:
                check_loads(python, tmp_path / "files" / name)


def working(name: str) -> str | None:
    """A Python that is on the path and starts: pyenv has names of versions that it does not run."""
    path = shutil.which(name)
    if path is None:
        return None
    done = subprocess.run([path, "-c", ""], check=False, capture_output=True, timeout=60)
    return path if done.returncode == 0 else None


def check_loads(python: str, library: Path) -> None:
    """Load a library with all its symbols resolved, which an import leaves for later."""
    code = f"import ctypes, os; ctypes.PyDLL({str(library)!r}, mode=os.RTLD_NOW)"
    done = subprocess.run([python, "-c", code], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_wheel_without_compiled_modules_is_for_every_machine(
    unpacked: Path, pure_wheel: Path, tmp_path: Path
) -> None:
    env = dict(os.environ) | {"CCLTUI_WHEEL": "pure"}

    wheel = wheel_of(unpacked, tmp_path / "wheel", env)

    assert wheel.name.endswith("-py3-none-any.whl")
    ours, others = checksums(wheel), checksums(pure_wheel)
    assert {name for name in ours if ".dist-info/" not in name} == {
        name for name in others if ".dist-info/" not in name
    }


def test_a_release_has_no_wheel_that_lacks_a_compiled_module(
    unpacked: Path, tmp_path: Path
) -> None:
    env = broken_compiler(tmp_path) | {"CCLTUI_WHEEL": "require"}

    with pytest.raises(AssertionError, match=r"error: [Cc]ommand .*false"):
        wheel_of(unpacked, tmp_path / "wheel", env)


def test_a_compiler_that_fails_gives_the_wheel_of_no_compiler(
    unpacked: Path, pure_wheel: Path, tmp_path: Path
) -> None:
    """The same files, so that the test of one of the two in an environment holds for both."""
    wheel = wheel_of(unpacked, tmp_path / "wheel", broken_compiler(tmp_path))

    check_content(wheel, compiled=False)
    assert checksums(wheel) == checksums(pure_wheel)


def test_a_wheel_that_no_compiler_built_works_in_an_empty_environment(
    pure_wheel: Path, demo: Demo, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    env = without_compiler(tmp_path / "empty")

    check_wheel(pure_wheel, demo, tmp_path / "environment", env, compiled=False)


def test_an_install_for_one_user_runs_with_a_home_that_cannot_be_written(
    pure_wheel: Path, demo: Demo, tmp_path: Path
) -> None:
    """What a cluster has: the Python of a module, pip --user, a home that is read-only."""
    (tmp_path / "empty").mkdir()
    env = without_compiler(tmp_path / "empty")
    with (ROOT / "pyproject.toml").open("rb") as file:
        needed = tomllib.load(file)["project"]["dependencies"]
    requirements = make_environment(tmp_path / "requirements", needed)
    base = getattr(sys, "_base_executable", sys.executable)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    library = subprocess.run([requirements, "-c", code], check=True, capture_output=True, text=True)
    env |= {"PYTHONUSERBASE": str(tmp_path / "user"), "PYTHONPATH": library.stdout.strip()}

    options = ("--user", "--quiet", "--no-index", "--no-deps", "--break-system-packages")
    pip(base, "install", *options, pure_wheel, env=env)

    commands = tmp_path / "user" / "bin"
    changes = {"HOME": "/dev/null", "PYTHONUSERBASE": env["PYTHONUSERBASE"]}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (changes | {"PYTHONPATH": env["PYTHONPATH"]}).items():
            patch.setenv(name, value)
        for name in ("CCLTUI_CACHE_DIR", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        checked, _ = output(commands, "doctor", "--environment")
        found, said = output(commands, demo.path, "--metric", "all", "--format", "json")
    assert f"in {tmp_path / 'user'}" in checked
    assert "/dev/null/.cache/ccltui cannot be written" in checked
    assert "parsers.nsys.sqlite._btree" in checked
    assert found == demo.numbers
    assert said.count(MARK) == 1


def wheel_of(
    sources: Path,
    folder: Path,
    env: dict[str, str],
    before: Callable[[Path], None] = lambda _sources: None,
) -> Path:
    """The wheel, built with the tools of this environment, with nothing of an earlier build."""
    shutil.rmtree(sources / "build", ignore_errors=True)
    before(sources)
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    command = [sys.executable, "-c", code]  # what pip calls: it would start five processes for it
    done = subprocess.run(
        command, check=False, cwd=sources, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def check_wheel(
    wheel: Path, demo: Demo, folder: Path, env: dict[str, str], *, compiled: bool
) -> None:
    """Install the wheel: its commands write the demo and print the numbers of this checkout."""
    check_content(wheel, compiled=compiled)

    commands = install(wheel, folder, env)

    assert output(commands, "demo", demo.path, "--no-open") == (f"{demo.path}\n", "")
    found, said = output(commands, *demo.arguments)
    assert found == demo.numbers
    assert said.count(MARK) == (0 if compiled else 1), said


def checksums(wheel: Path) -> dict[str, int]:
    """The checksum of every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist()}


def check_content(wheel: Path, *, compiled: bool) -> None:
    """A wheel holds modules, compiled ones where there was a compiler, and nothing generated."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    shared = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    names = [name for name in names if ".data/" not in name]
    suffixes = {Path(name).suffix for name in names if Path(name).name != "py.typed"}
    libraries = {name.partition(".")[0].replace("/", ".") for name in names if ".so" in name}

    data = {".tcss", ".html", ".css", ".sh", ".txt"}
    assert suffixes == {".py", ".pyi", *data, *([".so"] if compiled else [])}
    assert libraries == (set(EVERY) if compiled else set())
    assert wheel.stat().st_size < LARGEST_BYTES
    assert shared == SHARED


def install(wheel: Path, folder: Path, env: dict[str, str]) -> Path:
    """Install the wheel where only its requirements are; the folder of its commands."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        needed = tomllib.load(file)["project"]["dependencies"]
    python = make_environment(folder, needed)
    # Requirements are looked up too: one that is not met would have to be downloaded. The commands
    # compile the modules that they import, half of those that pip would compile.
    options = ("--quiet", "--no-index", "--no-cache-dir", "--no-compile")
    pip(python, "install", *options, wheel, env=env)
    return python.parent


def output(commands: Path, *arguments: str | Path) -> tuple[str, str]:
    """What a command prints, to standard output and to standard error."""
    env = {name: value for name, value in os.environ.items() if name != "CCLTUI_ACCEL"}
    done = subprocess.run(
        [str(commands / "ccltui"), *map(str, arguments)],
        check=False,
        cwd=commands,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr
