# make report   one workload, end to end: params/bert-base-uncased.yaml -> reports/bert-base-uncased/report.html
# make test     every test, and the nine notebooks
# make lab      JupyterLab on notebooks/
#
# Each target sets up .venv by itself; a second run skips what is done.

PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/ready
PARAMS ?= params/bert-base-uncased.yaml

.PHONY: report test lab sample notebooks schema lock bench clean help

report: $(READY)
	$(BIN)/neuronfit run $(PARAMS)

test: $(READY)
	$(BIN)/python -m pytest
	$(BIN)/python -m pytest --nbval-lax notebooks

# Trusted, as JupyterLab shows the drawings of a notebook that it does not trust as text.
lab: $(READY)
	$(BIN)/jupyter trust notebooks/*.ipynb
	$(BIN)/jupyter lab --notebook-dir=. --preferred-dir=notebooks

# Written outputs that are committed: the sample report, the notebooks' outputs, the editors' schema.
sample notebooks: $(READY)
	$(BIN)/python tools/refresh.py $@

schema: $(READY)
	$(BIN)/python tools/refresh.py schema

bench: $(READY)
	$(BIN)/python benchmarks/diagnose_log.py --mb 300
	$(BIN)/python benchmarks/harness_overhead.py
	$(BIN)/python benchmarks/traffic_ingest.py --rows 1000000
	$(BIN)/python benchmarks/endpoint_times.py
	$(BIN)/python benchmarks/endpoint_rate.py
	$(BIN)/python benchmarks/monitor_ingest.py --mb 300
	$(BIN)/python benchmarks/simulator_speed.py --week
	$(BIN)/python benchmarks/control_moves.py
	$(BIN)/python benchmarks/splitter.py
	$(BIN)/python benchmarks/trial_looks.py
	$(BIN)/python benchmarks/trial_memory.py --millions 4
	$(BIN)/python benchmarks/trial_kills.py
	$(BIN)/python benchmarks/trial_error_rates.py --trials 300
	$(BIN)/python benchmarks/trial_end_to_end.py
	$(BIN)/python benchmarks/monte_carlo.py

# Needs uv. Pins every package for Python 3.10 to 3.14; torch's own CUDA packages are left to its wheel.
lock:
	uv pip compile -q --universal --python-version 3.10 --no-annotate --no-header requirements.in | $(PYTHON) tools/lock.py > requirements.lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 10) <= sys.version_info < (3, 15) else "neuronfit needs Python 3.10 to 3.14, this is %d.%d | next: make PYTHON=python3.12" % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf .venv build lib/*.egg-info

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
