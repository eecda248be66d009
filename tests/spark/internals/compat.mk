# The other supported releases of Spark: each in an environment of its own, with what is relied on inside of it, a job of each
# kind of state, and a whole driver. Included by the root Makefile.

SPARK ?= 4.3
COMPAT := $(BUILD)/compat/$(SPARK)
COMPAT_TESTS := tests/spark/internals tests/spark/workers/test_kept_state.py tests/spark/sinks/test_sinks_of_spark.py \
	tests/spark/engine/test_binary_pickler.py tests/spark/engine/test_steady_clock.py

.PHONY: compat
compat: $(COMPAT)/.complete jars $(BUILD)/bin/versitygw ## Run the product on another release of Spark, 4.1 or 4.3 (SPARK=4.1), in minutes
	PYTHONPATH=tests/support STATEFULSPARK_JVM_ARCHIVE= $(COMPAT)/bin/python -m pytest -q -p no:cacheprovider $(or $(PYTEST_ARGS),$(COMPAT_TESTS))

$(COMPAT)/.complete: $(UV) requirements/dev.txt requirements/spark-$(SPARK).txt
	$(UV) venv -q --clear --python $(PYTHON) $(COMPAT)
	$(UV) pip sync -q --python $(COMPAT)/bin/python --require-hashes requirements/dev.txt
	$(UV) pip install -q --python $(COMPAT)/bin/python --no-deps --require-hashes -r requirements/spark-$(SPARK).txt
	$(UV) pip install -q --python $(COMPAT)/bin/python --no-deps --no-build-isolation -e jobruntime -e operator
	@touch $@
