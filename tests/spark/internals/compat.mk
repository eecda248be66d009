# Other supported releases of Spark, Python and Java: each pair of Spark and Python in an environment of its own, with what is
# relied on inside of Spark, a job of each kind of state, and a whole driver; and state that moves from each release to each
# other one. Java is the one of JAVA_HOME. Included by the root Makefile.

SPARK ?= 4.3
COMPAT := $(BUILD)/compat/$(notdir $(PYTHON))
COMPAT_SPARKS := 4.1 4.2 4.3
# What is relied on, a job of each kind of state, and a whole driver: what CI runs.
COMPAT_CONTRACT := $(addprefix tests/spark/internals/,test_jars.py test_jvm.py test_worker.py test_kinds.py test_driver.py)
COMPAT_TESTS := tests/spark/internals tests/spark/workers/test_kept_state.py tests/spark/sinks/test_sinks_of_spark.py \
	tests/spark/sinks/test_kafka_connection.py tests/spark/sinks/test_kafka_offsets.py \
	tests/spark/engine/test_binary_pickler.py tests/spark/engine/test_steady_clock.py
# Iceberg has a runtime for Spark 4.1, and none for newer releases.
ICEBERG_VERSION := 1.11.0
ICEBERG_JAR := $(BUILD)/compat/iceberg-spark-runtime-4.1_2.13-$(ICEBERG_VERSION).jar

.PHONY: compat compat-contract
compat: $(COMPAT_SPARKS:%=$(COMPAT)/%/.complete) jars servers $(BUILD)/bin/versitygw $(if $(filter 4.1,$(SPARK)),$(ICEBERG_JAR)) ## Run the product on another release of Spark, Python or Java, and move state between the releases, in minutes (SPARK=4.1 PYTHON=python3.13 JAVA_HOME=...)
	PYTHONPATH=tests/support STATEFULSPARK_JVM_ARCHIVE= STATEFULSPARK_TEST_SPARKS=$(abspath $(COMPAT)) \
		STATEFULSPARK_TEST_ICEBERG=$(if $(filter 4.1,$(SPARK)),$(abspath $(ICEBERG_JAR))) \
		$(COMPAT)/$(SPARK)/bin/python -m pytest $(or $(PYTEST_ARGS),-q -n $(WORKERS) $(COMPAT_TESTS))

compat-contract: ## The shorter part of it, on both other releases, which CI runs
	for spark in $(filter-out $(COMPILED_FOR),$(COMPAT_SPARKS)); do $(MAKE) --no-print-directory compat SPARK=$$spark COMPAT_SPARKS=$$spark COMPAT_TESTS="$(COMPAT_CONTRACT)"; done

# The locked requirements have one release of Spark; a file of requirements puts each other one in its place.
$(COMPAT)/%/.complete: $(UV) requirements/dev.txt $(wildcard requirements/spark-*.txt)
	$(UV) venv -q --clear --python $(PYTHON) $(@D)
	$(UV) pip sync -q --python $(@D)/bin/python --require-hashes requirements/dev.txt
	[ ! -e requirements/spark-$*.txt ] || $(UV) pip install -q --python $(@D)/bin/python --no-deps --require-hashes -r requirements/spark-$*.txt
	$(UV) pip install -q --python $(@D)/bin/python --no-deps --no-build-isolation -e jobruntime -e operator
	@touch $@

$(ICEBERG_JAR): | jvm-tools
	@mkdir -p $(@D)
	mvn -q -B -ntp dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:$(ICEBERG_VERSION) -DoutputDirectory=$(abspath $(@D))
