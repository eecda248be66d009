# Faults under load, on processes of this machine: no cluster, no root. Included by the root Makefile.

.PHONY: faults soak
FAULTS ?=
MINUTES ?= 60
SEED ?=
WORKERS_OF_SOAK ?= both
FAULTS_NEED = $(STAMPS)/venv jars servers $(VERSITYGW)
# Drivers start as in the image: with the classes that a start loads in an archive.
faults soak: export STATEFULSPARK_JVM_ARCHIVE := $(abspath $(JVM_ARCHIVE))
faults soak: $(JVM_ARCHIVE)

faults: $(FAULTS_NEED) ## Every fault under load against the truth, from where an earlier run ended (FAULTS="--scenario s3-")
	PYTHONPATH=e2e:tests/support $(BIN)/python -m faults $(FAULTS)

soak: $(FAULTS_NEED) ## Random faults under load for MINUTES=60, seeded (SEED=); an interrupted soak goes on (WORKERS_OF_SOAK=driver)
	PYTHONPATH=e2e:tests/support $(BIN)/python -m faults.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --workers $(WORKERS_OF_SOAK)

CLOUD := $(BUILD)/spark-hadoop-cloud
# The newest release of this jar that Maven Central has; its manager of checkpoint files runs on Spark 4.2 as it is.
CLOUD_VERSION := 4.1.2

.PHONY: faults-plain spark-hadoop-cloud
faults-plain: $(FAULTS_NEED) spark-hadoop-cloud ## The same faults for plain PySpark: what it loses, repeats, and asks of a person
	PYTHONPATH=e2e:tests/support $(BIN)/python -m faults.plain $(FAULTS)

spark-hadoop-cloud: $(CLOUD)/spark-hadoop-cloud_2.13-$(CLOUD_VERSION).jar

$(CLOUD)/spark-hadoop-cloud_2.13-$(CLOUD_VERSION).jar: | jvm-tools
	mvn -q -B -ntp dependency:copy -Dartifact=org.apache.spark:spark-hadoop-cloud_2.13:$(CLOUD_VERSION) -DoutputDirectory=$(abspath $(CLOUD))
