# Helm, built from its Go module by pinned version. Included by the root Makefile, which defines BUILD.
HELM_VERSION := v3.19.0
HELM_KUBERNETES_MINOR := 34
HELM := $(BUILD)/bin/helm
# Without these a helm from `go install` takes itself for v3.0 and every cluster that it cannot ask for 1.20.
HELM_LDFLAGS := -s -w -X helm.sh/helm/v3/internal/version.version=$(HELM_VERSION) \
	-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$(HELM_KUBERNETES_MINOR) \
	-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=$(HELM_KUBERNETES_MINOR)

$(HELM): charts/chart.mk
	@command -v go >/dev/null || { echo "Go 1.24 or newer is needed to build helm; install the package golang-go, or Go from go.dev."; exit 1; }
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) CGO_ENABLED=0 go install -trimpath -ldflags "$(HELM_LDFLAGS)" helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@touch $@

# promtool has Prometheus's own engine for rules. It comes from the same pinned module as the server of the dashboard's picture.
PROMTOOL := $(BUILD)/bin/promtool
$(PROMTOOL): $(wildcard bench/dashboard/server/*) | go-tool
	@mkdir -p $(dir $@)
	@echo "Building promtool (a minute or two, once)"
	cd bench/dashboard/server && CGO_ENABLED=0 go build -trimpath -tags remove_all_sd -ldflags '-s -w' -o $(abspath $@) github.com/prometheus/prometheus/cmd/promtool
