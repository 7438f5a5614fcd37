# `make lab` opens the course, `make test` checks everything. Both begin from nothing but Python 3.10 or newer.

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
LAB_ARGS ?=
PYTEST_ARGS ?=

python := $(VENV)/bin/python
pip_install = $(python) -m pip install --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
patience = Setting up $(@D), once: 1 to 5 minutes, more on a slow line (PyTorch alone is 200 MB to 3 GB: README, "The small PyTorch").
first_page := notebooks/00_start_here.ipynb
too_new = $(shell "$(PYTHON)" -c 'import sys; print("yes" * (sys.version_info >= (3, 14)))' 2>/dev/null)
colab = $(if $(too_new),no-colab,$(VENV)-colab/.made)
with_colab = $(if $(too_new),,REQPOOL_COLAB="$(abspath $(VENV)-colab)")
allow_root = $(if $(filter 0,$(shell id -u)),--allow-root)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test test-colab notebooks figures site bench badges fmt clean

help:
	@echo "make lab        open the course in JupyterLab     LAB_ARGS=\"--no-browser --port=8899\"  PIP_ARGS=\"...\""
	@echo "make test       format, lint, types and tests     PYTEST_ARGS=\"-k name\"  PIP_ARGS=\"...\""
	@echo "make test-colab of these, the notebooks with Colab's older widgets and IPython, in $(VENV)-colab"
	@echo "make notebooks  build notebooks/*.ipynb from notebooks/source/*.py"
	@echo "make figures    build the pictures in figures/"
	@echo "make site       the executed course as pages that need no kernel, in site/"
	@echo "make bench      measure: one table of times and ratios"
	@echo "make badges     write the badges, from [project.urls] in pyproject.toml"
	@echo "make fmt        format the code and mend what the linter can mend"
	@echo "make clean      remove .venv and caches"
	@echo "PYTHON=python3.12 chooses the interpreter that .venv is made from (now: $(PYTHON))."

lab: $(VENV)/.lab
	JUPYTER_PREFER_ENV_PATH=1 $(python) -m jupyter lab $(allow_root) \
	    --ServerApp.root_dir="$(CURDIR)" --LabApp.default_url=/lab/tree/$(first_page) $(LAB_ARGS)

test: $(VENV)/.test $(colab)
	@$(python) tools/find_browser.py --get
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m basedpyright --pythonpath $(python) --level error
	$(with_colab) $(python) -m pytest $(PYTEST_ARGS)

test-colab: $(VENV)/.test $(colab)
	$(with_colab) $(python) -m pytest tests/notebooks tests/platforms -k "colab or platforms" $(PYTEST_ARGS)

notebooks: $(VENV)/.test
	$(python) tools/build_notebooks.py

figures: $(VENV)/.test
	$(python) tools/build_figures.py

site: $(VENV)/.lab
	$(python) tools/build_site.py

bench: $(VENV)/.test
	$(python) tools/bench.py

badges: $(VENV)/.test
	$(python) tools/badges.py
	$(python) tools/build_notebooks.py

fmt: $(VENV)/.test
	$(python) -m ruff format .
	$(python) -m ruff check --fix .

clean:
	rm -rf $(VENV) $(VENV)-colab .pytest_cache .ruff_cache .hypothesis
	find reqpool tests tools notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up, in steps. Each leaves a stamp only when it went well, so an interrupted one is simply done again.

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) is not here: say which Python 3.10 or newer to use, as in make lab PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; v >= (3, 10) or sys.exit("reqpool needs Python 3.10 or newer, and %s is %d.%d: name another one, as in make lab PYTHON=python3.12" % (sys.argv[1], v[0], v[1]))' "$(PYTHON)"
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module: on Debian and Ubuntu it is the package python3-venv"; exit 1; }
	@"$(PYTHON)" -m venv "$(VENV)"
	@touch $@

$(VENV)/.lab: $(VENV)/.made pyproject.toml constraints.txt
	@echo '$(patience)'
	$(pip_install) -e ".[lab,course]"
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml constraints.txt
	@echo '$(patience)'
	$(pip_install) -e ".[test]"
	@touch $@ $(VENV)/.lab

.PHONY: no-colab
no-colab:
	@echo "Colab's versions exist up to Python 3.13, and $(PYTHON) is newer: the tests in Colab's world are skipped."

# Colab's versions, for the tests; besides, what its notebooks add there, and what pip builds this package with.
$(VENV)-colab/.made: $(VENV)/.test tests/notebooks/colab.txt tools/share_packages.py
	@"$(PYTHON)" -m venv --clear "$(VENV)-colab"
	$(python) tools/share_packages.py "$(VENV)-colab/bin/python" tests/notebooks/colab.txt
	$(VENV)-colab/bin/python -m pip install --disable-pip-version-check $(PIP_ARGS) -r tests/notebooks/colab.txt
	$(python) -m pip download --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -d "$(VENV)-colab/wheels" \
	    hypothesis pooch hatchling editables
	@touch $@
