# The picture of the chart's dashboard. Prometheus is built from its Go module by pinned version, with no discovery but that of
# Kubernetes and without its page; Debian's package has no discovery of Kubernetes. Included by the root Makefile.

PROMETHEUS := $(BUILD)/bin/prometheus
RECORD ?=

.PHONY: dashboard-picture
dashboard-picture: $(STAMPS)/venv jars images $(CLUSTER_NEEDS) $(BROKER_JARS) $(PROMETHEUS) ## Draw the chart's dashboard from its own queries, as a real Prometheus answers them: half an hour on a cluster (root), then from the recording (RECORD=1: anew)
	PYTHONPATH=tests/support:e2e $(BIN)/python -m bench.dashboard --picture docs/images/dashboard.png $(if $(RECORD),--record)

$(PROMETHEUS): $(wildcard bench/dashboard/server/*) | go-tool
	@mkdir -p $(dir $@)
	@echo "Building Prometheus (minutes, once)"
	cd bench/dashboard/server && CGO_ENABLED=0 go build -trimpath -tags remove_all_sd,enable_kubernetes_sd -ldflags '-s -w' -o $(abspath $@) github.com/prometheus/prometheus/cmd/prometheus
