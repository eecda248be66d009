# Real servers for the tests of sinks: a Kafka broker and a PostgreSQL, both from Maven Central by pinned version, so that no
# package manager and no root is needed. The tests start and end them; they land in build/. Included by the root Makefile.

SERVERS_DIR := tests/support/servers
BROKER_JARS := $(BUILD)/kafka/.complete
POSTGRES := $(BUILD)/postgres/bin/postgres
POSTGRES_VERSION := 17.7.0
POSTGRES_PLATFORM := linux-$(subst aarch64,arm64v8,$(subst x86_64,amd64,$(shell uname -m)))
POSTGRES_ARTIFACT := io.zonky.test.postgres:embedded-postgres-binaries-$(POSTGRES_PLATFORM):$(POSTGRES_VERSION)

.PHONY: kafka postgres servers
servers: kafka postgres

kafka: $(BROKER_JARS) ## Fetch the Kafka broker that the tests start
$(BROKER_JARS): $(SERVERS_DIR)/kafka-pom.xml | jvm-tools
	rm -rf $(@D)
	mvn -q -B -ntp -C -f $(SERVERS_DIR)/kafka-pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D))
	@touch $@

postgres: $(POSTGRES) ## Fetch the PostgreSQL that the tests start
$(POSTGRES): $(SERVERS_DIR)/servers.mk | jvm-tools
	rm -rf $(BUILD)/postgres && mkdir -p $(BUILD)/postgres
	mvn -q -B -ntp -C org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact=$(POSTGRES_ARTIFACT) -DoutputDirectory=$(abspath $(BUILD))/postgres
	$(PYTHON) -c 'import io, sys, tarfile, zipfile; jar = zipfile.ZipFile(sys.argv[1]); name = next(n for n in jar.namelist() if n.endswith(".txz")); tarfile.open(fileobj=io.BytesIO(jar.read(name)), mode="r:xz").extractall(sys.argv[2])' $(BUILD)/postgres/*.jar $(BUILD)/postgres
	@rm $(BUILD)/postgres/*.jar && touch $@
