# Helm, for testing the chart. Included by the root Makefile.
HELM_VERSION := v3.19.0
HELM := $(BUILD)/bin/helm

$(HELM):
	@command -v go >/dev/null || { echo "Go is needed to build helm; install the package golang-go, 1.24 or newer."; exit 1; }
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
