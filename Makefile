# make demo   set up, then open the explorer on a demo job
# make test   set up, then run the tests; those on Slurm: make slurm
# make bytecode  compile the tests before a first run, which is faster then
# make gates  format, lint, strict types, import layers, generated docs
# make check  the gates, then all tests
# make minimum  an install with the oldest versions of all dependencies, and the numbers of the demo
# make docs-site  the pages of docs/ as a site, in build/site
# make pictures  draw the pictures of docs/ anew: screens of the explorer on demo jobs
# make titan-tests  the seven workloads and torchtitan 0.2.2 itself, on CPUs: slow
# make fuzz-quick    changed inputs for every reader, a minute; fuzz-nightly: hours
# make seeds  run what the seed documents state, and write docs/seeds.md; needs what make slurm needs
# make faults  500 signals and kills at random moments: what is left of each is looked at
# make coverage  branches of each package that tests take: half an hour
# make index-cost  CPU time of ccltui index on a private Slurm, by engine
# make deepspeed-tests  DeepSpeed on two nodes of the private Slurm; not part of make slurm, as it
#                       installs DeepSpeed and compiles a part of it
# make slurm  the tests on a private real Slurm: as root, with the packages of .ci/run
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-dev
RUN    := $(VENV)/.installed
TORCH  := $(VENV)/.installed-torch

# Tests start hundreds of processes, and every worker imports every test: bytecode is written even
# where PYTHONDONTWRITEBYTECODE is set. compileall follows no links. A worker gets whole files of
# tests, so that fixtures of a module are made once, until another worker has nothing left.
COMPILE := $(BIN)/python -m compileall -q parsers metrics ccltui
PYTEST  := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

# Without ensurepip (python3-venv on Debian) an environment is left without pip: it is begun again then,
# and an older Python begins none, which the next one would keep.
OLDER := ccltui needs Python 3.11 or newer: name one, as in PYTHON=python3.12 (docs/install.md)
define MAKE_VENV
@test -x $(BIN)/pip || { $(PYTHON) -c 'import sys; sys.exit("$(OLDER)" if sys.version_info < (3, 11) else 0)' \
	&& echo "installing into $(VENV), for the first time: a minute or two" && $(PYTHON) -m venv $(VENV); }
endef

TITAN  := .venv-titan

# Coverage for fuzzing; there is no wheel of it for every version of Python.
ATHERIS := $(BIN)/python -m pip install --quiet --only-binary :all: "atheris>=2.3" || true

.PHONY: demo test check gates bytecode coverage seeds slurm deepspeed-tests index-cost titan-tests torch format lint types layers minimum docs docs-site pictures bench faults fuzz-quick fuzz-nightly sanitize clean

demo: $(RUN)
	$(BIN)/ccltui demo

# Tests on a private Slurm, which train with torch, have a target of their own: make slurm.
test: $(STAMP)
	$(COMPILE)
	$(PYTEST) --ignore=tests/slurm

# The byte code of all tests, written once: in a first run each worker would write it, 15 CPU-s
# each. What cannot be collected is said where the tests run.
bytecode: $(STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq >/dev/null || true

check: $(STAMP) gates
	$(COMPILE)
	$(PYTEST)

seeds: $(TORCH)
	$(BIN)/python tests/seeds/run_seeds.py

# Two workers, each with a cluster of its own: jobs and their ends are waited for half of the time.
slurm: $(TORCH)
	CCLTUI_SLURM=require $(BIN)/python -m pytest -n 2 --dist loadfile tests/slurm

deepspeed-tests: $(TORCH)
	$(BIN)/python -m pip install --quiet "deepspeed==0.19.8"
	CCLTUI_SLURM=require CCLTUI_DEEPSPEED=require $(BIN)/python -m pytest tests/slurm/test_slurm_deepspeed.py

index-cost:
	$(BIN)/python tests/slurm/index_cost.py

# torchtitan brings a PyTorch and much else of its own, so it has an environment of its own.
titan-tests: $(STAMP) $(TITAN)/.installed
	CCLTUI_TITAN_VENV=$(abspath $(TITAN)) $(BIN)/python -m pytest -m slow tests/sbatch

$(TITAN)/.installed:
	test -x $(TITAN)/bin/python || $(PYTHON) -m venv $(TITAN)
	$(TITAN)/bin/python -m pip install --quiet torch==2.13.0 numpy
	$(TITAN)/bin/python -m pip install --quiet torchtitan==0.2.2 triton
	touch $@

torch: $(TORCH)

gates: lint types layers docs

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Scripts for clusters are checked where the two programs are installed.
lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	for check in "shellcheck -x" "shfmt -d"; do \
		command -v $${check% *} >/dev/null || { echo "no $${check% *} here: scripts are not checked"; continue; }; \
		find sbatch tests/sbatch/*.bats -type f -regex '.*\.\(sh\|sbatch\|bats\)' -exec $$check {} + || exit; \
	done

# Each folder of tests is a world of its own: helpers beside the tests, a conftest of one name.
types: $(STAMP)
	$(BIN)/mypy ccltui bench tests/conftest.py
	$(BIN)/mypy sbatch/lib sbatch/fsdp_benchmark sbatch/gpt2_deepspeed
	status=0; for folder in tests/[a-z]*/; do MYPYPATH=$$folder:tests/metrics:tests/parsers:tests/report:tests:sbatch/lib $(BIN)/mypy $$folder || status=1; done; exit $$status

layers: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/python -m ccltui.tools.reference --check

# Strict: a link, an anchor or a page that is missing ends it. The variable silences an advertisement.
docs-site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo build/site/index.html

pictures: $(STAMP)
	$(BIN)/python -m ccltui.tools.pictures

# The oldest versions of all dependencies, in an empty environment.
minimum:
	CCLTUI_WHEEL=pure $(PYTHON) packaging/check_install.py . --versions minimum

bench: $(STAMP)
	$(BIN)/python -m bench

# Branches of each package that the tests take, except in the processes that they start.
coverage: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable ".[dev,coverage]"
	$(PYTEST) --quiet $(addprefix --ignore=tests/,slurm install sbatch bench fuzz) \
		--cov --cov-report=json:coverage.json
	$(BIN)/python -m bench.branch_coverage coverage.json

# About three minutes of one CPU, with the same inputs each time, so that a finding is of the
# change that is tested; without atheris inputs are changed at random.
fuzz-quick: $(STAMP)
	$(ATHERIS)
	$(BIN)/python tests/fuzz/run_fuzz.py --inputs 800 --seed 1

# Sixty times the examples of every property, two hundred thousand mutants through both decoders,
# and six hours for all readers, which begin with what reached new code in the nights before.
fuzz-nightly: $(STAMP)
	$(COMPILE)
	$(ATHERIS)
	$(PYTEST) --hypothesis-profile thorough -m hypothesis
	$(BIN)/python tests/parsers/kineto_fuzz.py --mutants 200000
	$(BIN)/python tests/fuzz/run_fuzz.py --seconds 21600 --corpus fuzz-corpus

# Compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer, built in a copy of the tree.
sanitize: $(STAMP)
	tests/fuzz/sanitize.sh $(BIN)/python

# Five hundred signals and kills at random moments, in a quarter of an hour.
faults: $(STAMP)
	$(COMPILE)
	PYTHONPATH=tests/faults $(BIN)/python tests/faults/run_faults.py --signals 500

# The demo needs no development package, so it has a stamp of its own.
$(RUN): pyproject.toml setup.py
	$(MAKE_VENV)
	$(BIN)/python -m pip install --quiet --editable .
	$(COMPILE)
	touch $@

$(STAMP): pyproject.toml setup.py
	$(MAKE_VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(COMPILE)
	touch $@ $(RUN)

# Large, and of no use outside the tests on Slurm, which are skipped without it: they train a job of
# a few seconds on CPUs, with gloo. Their numbers are of this version.
$(TORCH): $(STAMP)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	touch $@

clean:
	rm -rf $(VENV) $(TITAN) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
