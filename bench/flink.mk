# Flink beside us: pinned jars and PyFlink in an environment of their own, and the small Java job that is measured. Only the
# benchmarks need them. Included by the root Makefile. PyFlink 2.1 wants Python 3.9 to 3.12, whatever this project runs on.

FLINK := $(BUILD)/flink
FLINK_PYTHON ?= 3.11
FLINK_LIB = $(FLINK)/venv/lib/python$(FLINK_PYTHON)/site-packages/pyflink/lib
FLINK_SOURCES := $(wildcard bench/flink/java/statefulspark/bench/*.java)

.PHONY: flink flink-lock
flink: $(FLINK)/bench.jar ## Fetch Flink and PyFlink and compile the job that is measured beside ours

bench: flink
lock: flink-lock

flink-lock: $(UV)
	$(UV) pip compile $(LOCK) requirements/flink.in -o requirements/flink.txt

$(FLINK)/.installed: requirements/flink.txt | $(UV)
	$(UV) venv -q --clear --python $(FLINK_PYTHON) $(FLINK)/venv
	$(UV) pip install -q --python $(FLINK)/venv/bin/python --require-hashes -r requirements/flink.txt
	@touch $@

$(FLINK)/bench.jar: $(FLINK_SOURCES) $(FLINK)/.installed | jvm-tools
	rm -rf $(FLINK)/classes
	javac --release 17 -Xlint:all,-classfile,-processing,-path -Werror -cp '$(FLINK_LIB)/*' -d $(FLINK)/classes $(FLINK_SOURCES)
	jar --create --file $@ --date=2026-01-01T00:00:00Z -C $(FLINK)/classes .
