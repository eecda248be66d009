# The JVM side: the S3A jars (Maven Central) and our checkpoint classes (javac against pyspark/jars), into the package.
# Runs again only when an input changes; needs a JDK 17 or newer and Maven, which root gets from apt-get. Included by the
# root Makefile.

JARS_DIR := jobruntime/src/statefulspark/jars
JVM_DIR := jobruntime/jvm
JVM_SOURCES := $(shell find $(JVM_DIR)/src/main -name '*.java')
# A folder's time changes when a file in it is added or removed; both must rebuild the jar.
JVM_FOLDERS := $(shell find $(JVM_DIR)/src/main -type d)
PYSPARK_JARS = $(shell $(BIN)/python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')/jars
CHECKPOINT_JAR := $(JARS_DIR)/statefulspark-checkpoint.jar

.PHONY: jars
jars: $(CHECKPOINT_JAR) ## Fetch the S3A jars and compile the checkpoint classes into the Python package

.PHONY: jvm-tools
jvm-tools: | $(UV)  # one apt-get at a time
	@{ command -v javac && command -v mvn; } >/dev/null 2>&1 \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
	       && apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless maven; } \
	  || { echo "A Java 17 JDK (javac) and Maven (mvn) are needed to build the jars; install openjdk-17-jdk-headless and maven."; exit 1; }
	@javac --release 17 -version >/dev/null 2>&1 \
	  || { echo "Java 17 or newer is needed, and javac is $$(javac -version 2>&1); install openjdk-17-jdk-headless."; exit 1; }

# What each release of Spark needs of its own: release, hadoop-aws, which must equal the Hadoop client of its PySpark, and the
# Kafka connector, for 4.3 that of 4.2 until Maven Central has a newer one. tests/spark/internals compares them.
RELEASE_JARS := 4.1:3.4.2:4.1.3 4.2:3.5.0:4.2.0 4.3:3.5.0:4.2.0
OF_A_RELEASE := hadoop-aws,spark-sql-kafka-0-10_2.13
COPY_JARS = mvn -q -B -ntp -f $(JVM_DIR)/pom.xml dependency:copy-dependencies -DincludeScope=runtime

$(JARS_DIR)/.s3a: $(JVM_DIR)/pom.xml $(JVM_DIR)/jvm.mk jobruntime/pyproject.toml | $(STAMPS)/venv jvm-tools
	rm -rf $(JARS_DIR)
	@mkdir -p $(JARS_DIR)
	$(COPY_JARS) -DexcludeArtifactIds=$(OF_A_RELEASE) -DoutputDirectory=$(abspath $(JARS_DIR))
	set -e; for jars in $(RELEASE_JARS); do IFS=: read -r release hadoop kafka <<<"$$jars"; \
	  $(COPY_JARS) -DincludeArtifactIds=$(OF_A_RELEASE) -Dhadoop.version=$$hadoop -Dspark.version=$$kafka \
	    -DoutputDirectory=$(abspath $(JARS_DIR))/spark-$$release; done
	@touch $@

# One jar serves every release: what they have in different forms is called by reflection (`io.statefulspark.internals`).
COMPILED_FOR := 4.2

$(CHECKPOINT_JAR): $(JVM_SOURCES) $(JVM_FOLDERS) $(JARS_DIR)/.s3a | jvm-tools
	rm -rf $(BUILD)/jvm
	@mkdir -p $(BUILD)/jvm
	javac --release 17 -Xlint:all,-classfile,-processing,-path -Werror -cp '$(PYSPARK_JARS)/*:$(JARS_DIR)/*:$(JARS_DIR)/spark-$(COMPILED_FOR)/*' -d $(BUILD)/jvm $(JVM_SOURCES)
	@# Moved into place: a running JVM that has the old file open keeps it.
	jar --create --file $(BUILD)/checkpoint.jar --date=2026-01-01T00:00:00Z -C $(BUILD)/jvm .
	mv $(BUILD)/checkpoint.jar $@

# The archive that the image has, for the paths of this folder: whole drivers of tests start in half of the time with it.
# Where it does not fit, the JVM leaves it aside.
JVM_ARCHIVE := $(BUILD)/jvm.jsa
$(JVM_ARCHIVE): $(CHECKPOINT_JAR) jobruntime/image/train_archive.py jobruntime/image/training_store.py
	@echo "Training the JVM's archive, once: about a minute."
	@mkdir -p $(BUILD)
	SPARK_LOCAL_IP=127.0.0.1 $(BIN)/python jobruntime/image/train_archive.py $@ >$(BUILD)/archive.log 2>&1 || { tail -n 30 $(BUILD)/archive.log; exit 1; }
