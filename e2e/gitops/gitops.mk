# What tools for GitOps take an object for, by their own library. Included by the root Makefile, which defines BUILD.
KSTATUS := $(BUILD)/bin/kstatus

$(KSTATUS): $(wildcard e2e/gitops/kstatus/*) | go-tool
	@mkdir -p $(dir $@)
	cd e2e/gitops/kstatus && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(abspath $@) .

# Argo CD's engine as a library needs the Go of its own go.mod (1.26), which an older Go fetches by itself.
GITOPS_AGENT := $(BUILD)/bin/gitops-agent

$(GITOPS_AGENT): $(wildcard e2e/gitops/agent/*) | go-tool
	@mkdir -p $(dir $@)
	@echo "Building an agent with Argo CD's engine (minutes, once)"
	cd e2e/gitops/agent && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(abspath $@) .
