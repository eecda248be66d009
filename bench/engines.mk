# Bytewax and Pathway beside us, pinned, in an environment of their own; only the benchmarks need them. Included by the root
# Makefile. Bytewax 0.21.1 has wheels for Python 3.8 to 3.12, whatever this project runs on.

ENGINES := $(BUILD)/engines
ENGINES_PYTHON ?= 3.11

.PHONY: engines engines-lock
engines: $(ENGINES)/.installed ## Fetch Bytewax and Pathway, which are measured beside ours

bench: engines
lock: engines-lock

engines-lock: $(UV)
	$(UV) pip compile $(LOCK) requirements/engines.in -o requirements/engines.txt

$(ENGINES)/.installed: requirements/engines.txt | $(UV)
	$(UV) venv -q --clear --python $(ENGINES_PYTHON) $(ENGINES)/venv
	$(UV) pip install -q --python $(ENGINES)/venv/bin/python --require-hashes -r requirements/engines.txt
	@touch $@
