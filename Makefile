# What can be done here. `make` alone lists it.
#
# Everything works on a machine that has only Python 3.11 or newer, make and a package index: the
# targets build their environment in .venv, once, and again when pyproject.toml changes. Paths are
# relative throughout, because make cannot handle a target with a space in its name.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo quick test deep check crash mutants kills soak bench bench-peers clean FORCE
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SILENT:

# Give PYTHON=/path/to/python to choose one; otherwise the first of these that really runs.
PYTHON :=
PYTHONS := python3.13 python3.12 python3.11 python3 python
# Extra words for pytest, as in: make test ARGS="-k drift -x"
ARGS :=
# The innermost ring: what can be judged in under a minute. Units, the decision table, one agent that
# is really killed, and one sweep over every point of a run on SQLite.
QUICK := tests/model \
	tests/engine/calls/test_dispatch.py \
	tests/engine/doubts/test_reconcile.py \
	tests/engine/test_sweep.py \
	tests/kill/test_axes.py \
	tests/testing/crash/test_sweep.py::test_every_level_examines_its_points_and_finds_nothing_wrong
# The parts of make deep: the tests with the marker deep(part="sweeps") belong to deep-sweeps.
DEEP := sweeps soak adapters
# As many workers as the machine has cores, and one more (tests/conftest.py).
PYTEST := .venv/bin/python -m pytest -q -n auto --dist worksteal -rs
# How long make crash explores.
BUDGET := 600s
# How long each part of make soak kills.
SECONDS := 300

PIP_INSTALL := -m pip install --quiet --quiet --disable-pip-version-check --no-input

# An environment belongs to one place: its editable install points there. If this folder was copied
# or moved together with its environment, or the environment's Python is gone, it is built again;
# otherwise the tests would silently test the old place.
STALE := $(shell [ ! -e .venv/.place ] || { [ "`cat .venv/.place`" = "`pwd -P`" ] \
	&& .venv/bin/python -c '' 2>/dev/null; } || echo FORCE)

help:
	echo "make demo         watch an agent being killed, with and without nottwice (a minute)"
	echo "make quick        the heart of the tests, in under a minute"
	echo "make check        ruff, mypy and the house rules: before every commit"
	echo "make test         ruff, mypy and the tests on all stores; ARGS=\"-k word\" is passed to pytest"
	echo "make deep         what make test leaves out: $(DEEP:%=deep-%)"
	echo "make crash        our own agents killed everywhere; BUDGET=600s says for how long"
	echo "make mutants      nottwice broken, one guard at a time: a test must notice (minutes)"
	echo "make kills        graphs killed at every pair of places (an hour or more)"
	echo "make soak         runs and workers killed at random; SECONDS=300 says for how long, each"
	echo "make bench        the speed of the guard, beside bare SQLite, and of long runs of graphs"
	echo "make bench-peers  the same work through similar libraries, each in .venv-peers"
	echo "make clean        remove the environments and what the tools left behind"
	echo
	echo "Each builds what it needs in .venv. PYTHON=/path/to/python chooses the interpreter."

demo: .venv/.runtime
	.venv/bin/nottwice demo

quick: .venv/.dev
	$(PYTEST) -m "not deep" $(QUICK) $(ARGS)

test: .venv/.dev
	echo "ruff:   style and likely mistakes"
	.venv/bin/python -m ruff check --quiet .
	echo "mypy:   types, strictly"
	.venv/bin/python -m mypy --no-error-summary
	echo "pytest: the tests that are not left to make deep"
	$(PYTEST) -m "not deep" $(ARGS)

deep: $(DEEP:%=deep-%)

.PHONY: $(DEEP:%=deep-%)
# The soak tests last longer here than when pytest is called without make.
deep-soak: export NOTTWICE_SOAK_SECONDS ?= 60
deep-soak: export NOTTWICE_FLEET_SECONDS ?= 60
$(DEEP:%=deep-%): deep-%: .venv/.dev
	echo "pytest: deep-$*"
	$(PYTEST) -m 'deep(part="$*")' $(ARGS)

check: .venv/.dev
	echo "ruff:   style and likely mistakes"
	.venv/bin/python -m ruff check --quiet .
	echo "mypy:   types, strictly"
	.venv/bin/python -m mypy --no-error-summary
	echo "tidy:   the house rules"
	.venv/bin/python -m pytest -q -rs tests/test_tidy.py tests/test_public_names.py

crash: .venv/.dev
	.venv/bin/python -m tests.crash.sweeping --budget $(BUDGET) $(ARGS)

# ARGS="--only approvals" runs a part; --json, --list and --jobs 4 are there as well.
mutants: .venv/.dev
	.venv/bin/python -m tools.mutants $(ARGS)

# NOTTWICE_KILLS=200 tries so many pairs only; NOTTWICE_SEED=... repeats a sample.
kills: .venv/.dev
	NOTTWICE_KILLS=$${NOTTWICE_KILLS:-all} .venv/bin/python -m pytest -q -n 2 -rP \
		--timeout 14400 tests/kill/test_graphs.py $(ARGS)

soak: .venv/.dev
	NOTTWICE_SOAK_SECONDS=$(SECONDS) NOTTWICE_SOAK_RUNS=200 .venv/bin/python -m pytest -q -s \
		tests/kill/test_soak.py $(ARGS)
	NOTTWICE_FLEET_SECONDS=$(SECONDS) NOTTWICE_FLEET_RUNS=100 .venv/bin/python -m pytest -q -s \
		tests/kill/test_fleet.py $(ARGS)

bench: .venv/.dev
	.venv/bin/python bench/run.py
	.venv/bin/python bench/graphs.py
	.venv/bin/python bench/worker.py
	.venv/bin/python bench/agent.py
	.venv/bin/python bench/postgres.py

bench-peers: .venv/.dev
	.venv/bin/python bench/peers.py
	.venv/bin/python bench/graph_peers.py
	.venv/bin/python bench/agent.py --peer
	.venv/bin/python bench/postgres_peers.py
	.venv/bin/python bench/langgraph_saver.py

clean:
	echo "Removing the environments that make built, build output and caches."
	[ ! -e .venv/.built-by-make ] || rm -rf .venv
	rm -rf .venv-peers .venv-frameworks build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench docs examples -name __pycache__ -type d -prune -exec rm -rf {} + \
		2>/dev/null || true

# The runtime stamp is enough for the demo; the dev stamp includes it.
.venv/.runtime: pyproject.toml .venv/.place
	echo "Installing nottwice into .venv"
	.venv/bin/python $(PIP_INSTALL) --editable . || { $(explain_install); }
	touch $@

.venv/.dev: pyproject.toml .venv/.place
	echo "Installing nottwice and its development tools into .venv (once)"
	.venv/bin/python $(PIP_INSTALL) --editable '.[dev]' || { $(explain_install); }
	touch .venv/.runtime $@

explain_install = \
	echo "The installation failed; pip says why above. It needs a package index:" >&2; \
	echo "set PIP_INDEX_URL if yours is not pypi.org, then run the same command again." >&2; \
	exit 1

# A name on PATH proves nothing (version managers put up names that do not run), so each candidate
# is asked: are you new enough, and can you make an environment? The first mark says that the folder
# is ours to remove, even half built; the second, that it is whole and where it belongs.
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
