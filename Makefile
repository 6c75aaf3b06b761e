# What can be done here. `make` alone lists it.
#
# Everything works on a machine that has only Python 3.11 or newer, make and a package index: the
# targets build their environment in .venv, once, and again when pyproject.toml changes. Paths are
# relative throughout, because make cannot handle a target with a space in its name.

SHELL := /bin/sh
# Where bytecode is forbidden, each of the thousands of processes that the tests start would compile
# nottwice again. tests/conftest.py forbids it where a stale copy could matter.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
.PHONY: help demo quick test deep newest-sdks check crash mutants kills soak bench bench-peers
.PHONY: clean FORCE
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SILENT:

# PYTHON=/path/to/python chooses the interpreter; otherwise it is the first of these that runs.
PYTHON :=
PYTHONS := python3.13 python3.12 python3.11 python3 python
# Extra words for pytest, as in: make test ARGS="-k drift -x"
ARGS :=
# The innermost ring, which takes under a minute: units, the decision table, one agent that is
# killed with a real SIGKILL, and one sweep over every point of a run on SQLite.
QUICK := tests/model \
	tests/engine/calls/test_dispatch.py \
	tests/engine/doubts/test_reconcile.py \
	tests/engine/test_sweep.py \
	tests/kill/test_axes.py \
	tests/testing/crash/test_sweep.py::test_every_level_examines_its_points_and_finds_nothing_wrong
# The parts of make deep: the tests with the marker deep(part="sweeps") belong to deep-sweeps.
DEEP := sweeps soak adapters hosts browser
COMPILE := .venv/bin/python -m compileall -q src
# The tests that fork most. They run first and alone: a process that has collected every test is
# three times as slow to fork.
FORKING := tests/testing tests/crash
# The files that contain a word, so that a part of make deep collects no others.
files_with = $$(grep -rlE $(1) tests --include='test_*.py')
# As many workers as the machine has cores, and one more (tests/conftest.py).
PYTEST := .venv/bin/python -m pytest -q -n auto --dist worksteal -rs
# pytest ends with 5 if ARGS leave no test, which may be true of one of two runs.
OR_NONE = $(if $(ARGS),|| [ $$? -eq 5 ])
# What pyproject.toml pins because it gates a change; make newest-sdks tries the newest versions.
SDKS := anthropic openai tenacity
# How long make crash explores.
BUDGET := 600s
# How long each part of make soak lasts.
SECONDS := 300

PIP_INSTALL := -m pip install --quiet --quiet --disable-pip-version-check --no-input

# An environment belongs to one folder: its editable install points there. If this folder was copied
# or moved together with its environment, or the environment's Python is gone, make builds the
# environment again. Otherwise the tests would silently test the old folder.
STALE := $(shell [ ! -e .venv/.place ] || { [ "`cat .venv/.place`" = "`pwd -P`" ] \
	&& .venv/bin/python -c '' 2>/dev/null; } || echo FORCE)

help:
	echo "make demo         watch an agent being killed, with and without nottwice (a minute);"
	echo "                  ARGS=--page then opens the operator's page of its ledger"
	echo "make quick        the core tests, in under a minute"
	echo "make check        ruff, mypy and the house rules; run it before every commit"
	echo "make test         ruff, mypy and the tests on all stores; ARGS=\"-k word\" is passed to pytest"
	echo "make deep         what make test leaves out: $(DEEP:%=deep-%) deep-properties"
	echo "make newest-sdks  test with the newest versions of $(SDKS)"
	echo "make crash        kill our own agents everywhere; BUDGET=600s sets how long"
	echo "make mutants      break nottwice, one guard at a time; a test must notice each (minutes)"
	echo "make kills        kill graphs at every pair of points (an hour or more)"
	echo "make soak         kill runs and workers at random; SECONDS=300 sets how long, for each part"
	echo "make bench        measure start-up, the guard next to bare SQLite, and long runs of graphs"
	echo "make bench-peers  measure the same work with similar libraries, in .venv-peers"
	echo "make clean        remove the environments, build output and caches"
	echo
	echo "Each builds what it needs in .venv. PYTHON=/path/to/python chooses the interpreter."

demo: .venv/.runtime
	.venv/bin/nottwice demo $(ARGS)

quick: .venv/.dev
	$(COMPILE)
	$(PYTEST) -m "not deep" $(QUICK) $(ARGS)

test: .venv/.dev
	echo "ruff:   style and likely mistakes"
	.venv/bin/python -m ruff check --quiet .
	echo "mypy:   types, strictly"
	.venv/bin/python -m mypy --no-error-summary
	echo "pytest: the tests that are not left to make deep"
	$(COMPILE)
	$(PYTEST) -m "not deep" $(FORKING) $(ARGS) $(OR_NONE)
	$(PYTEST) -m "not deep" tests $(FORKING:%=--ignore=%) $(ARGS) $(OR_NONE)

deep: $(DEEP:%=deep-%) deep-properties

.PHONY: $(DEEP:%=deep-%) deep-properties
# The soak tests last longer here than when pytest is called without make.
deep-soak: export NOTTWICE_SOAK_SECONDS ?= 60
deep-soak: export NOTTWICE_FLEET_SECONDS ?= 60
# On a disk, and not in memory as make test (tests/conftest.py).
$(DEEP:%=deep-%): export TMPDIR ?= /tmp
$(DEEP:%=deep-%): deep-%: .venv/.dev
	echo "pytest: deep-$*"
	$(COMPILE)
	$(PYTEST) -m 'deep(part="$*")' $(call files_with,'part="$*"') $(ARGS)

# The properties of make test again, with twenty times as many examples.
deep-properties: .venv/.dev
	echo "pytest: deep-properties"
	$(COMPILE)
	$(PYTEST) -m hypothesis --hypothesis-profile deep $(call files_with,'hypothesis|spoiling') $(ARGS)

# The stamp is removed, so that the next target installs the pinned versions again.
newest-sdks: .venv/.dev
	rm .venv/.dev
	.venv/bin/python $(PIP_INSTALL) --upgrade $(SDKS)
	$(PYTEST) -m "not deep" tests/agent tests/test_guide_recipes.py $(ARGS)

check: .venv/.dev
	echo "ruff:   style and likely mistakes"
	.venv/bin/python -m ruff check --quiet .
	echo "mypy:   types, strictly"
	.venv/bin/python -m mypy --no-error-summary
	echo "tidy:   the house rules"
	.venv/bin/python -m pytest -q -rs tests/test_tidy.py tests/test_public_names.py

crash: .venv/.dev
	.venv/bin/python -m tests.crash.sweeping --budget $(BUDGET) $(ARGS)

# ARGS="--only approvals" runs a part; it also takes --json, --list and --jobs 4.
mutants: .venv/.dev
	.venv/bin/python -m tools.mutants $(ARGS)

# NOTTWICE_KILLS=200 tries only 200 pairs; NOTTWICE_SEED=... repeats a sample.
kills: .venv/.dev
	NOTTWICE_KILLS=$${NOTTWICE_KILLS:-all} .venv/bin/python -m pytest -q -n 2 -rP \
		--timeout 14400 tests/kill/test_graphs.py $(ARGS)

soak: .venv/.dev
	NOTTWICE_SOAK_SECONDS=$(SECONDS) NOTTWICE_SOAK_RUNS=200 .venv/bin/python -m pytest -q -s \
		tests/kill/test_soak.py $(ARGS)
	NOTTWICE_FLEET_SECONDS=$(SECONDS) NOTTWICE_FLEET_RUNS=100 .venv/bin/python -m pytest -q -s \
		tests/kill/test_fleet.py $(ARGS)

bench: .venv/.dev
	.venv/bin/python bench/startup.py
	.venv/bin/python bench/run.py
	.venv/bin/python bench/long_calls.py
	.venv/bin/python bench/graphs.py
	.venv/bin/python bench/worker.py
	.venv/bin/python bench/agent.py
	.venv/bin/python bench/telemetry.py
	.venv/bin/python bench/postgres.py
	.venv/bin/python bench/fleet.py
	.venv/bin/python bench/waiting.py

bench-peers: .venv/.dev
	.venv/bin/python bench/peers.py
	.venv/bin/python bench/graph_peers.py
	.venv/bin/python bench/agent.py --peer
	.venv/bin/python bench/postgres_peers.py
	.venv/bin/python bench/langgraph_saver.py

clean:
	echo "Removing the environments that make built, build output and caches."
	[ ! -e .venv/.built-by-make ] || rm -rf .venv
	rm -rf .venv-peers .venv-frameworks .venv-frameworks-otel .venv-mcp .venv-hosts build dist
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench docs examples -name __pycache__ -type d -prune -exec rm -rf {} + \
		2>/dev/null || true

# The runtime stamp is enough for the demo; the dev stamp includes it.
.venv/.runtime: pyproject.toml .venv/.place
	echo "Installing nottwice into .venv"
	.venv/bin/python $(PIP_INSTALL) --editable '.[web]' || { $(explain_install); }
	touch $@

.venv/.dev: pyproject.toml .venv/.place
	echo "Installing nottwice and its development tools into .venv (once)"
	.venv/bin/python $(PIP_INSTALL) --editable '.[dev]' || { $(explain_install); }
	touch .venv/.runtime $@

explain_install = \
	echo "The installation failed; pip says why above. It needs a package index:" >&2; \
	echo "set PIP_INDEX_URL if yours is not pypi.org, then run the same command again." >&2; \
	exit 1

# A name on PATH proves nothing (version managers install names that do not run), so make checks of
# each candidate that it is new enough and can create an environment. .built-by-make says that make
# may remove the folder, even half built; .place, that it is complete and in its original folder.
.venv/.place: $(STALE)
	if [ -e .venv ] && [ ! -e .venv/.built-by-make ]; then \
		echo "There is a .venv here that make did not build; it was left alone." >&2; \
		echo "Move or remove it, then run the same command again." >&2; \
		exit 1; \
	fi; \
	found=; old=; bare=; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",$(PYTHONS)); do \
		"$$candidate" -c '' >/dev/null 2>&1 || continue; \
		if ! "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
			old="$$old $$candidate"; \
		elif ! "$$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
			bare="$$bare $$candidate"; \
		else \
			found=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "No Python here can build .venv; nothing was installed." >&2; \
		[ -z "$$old" ] || echo "Older than 3.11:$$old" >&2; \
		[ -z "$$bare" ] || echo "Without the venv module:$$bare" >&2; \
		echo "Install Python 3.11 or newer with venv (Debian and Ubuntu: apt install" >&2; \
		echo "python3 python3-venv; macOS: brew install python), or name one that you have:" >&2; \
		echo "make PYTHON=/path/to/python ..." >&2; \
		exit 1; \
	fi; \
	echo "Building .venv with `"$$found" -V`"; \
	rm -rf .venv && mkdir .venv && touch .venv/.built-by-make; \
	"$$found" -m venv .venv || { rm -rf .venv; exit 1; }; \
	pwd -P > $@

FORCE:
