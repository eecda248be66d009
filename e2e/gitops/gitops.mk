# What tools for GitOps take an object for, by their own library. Included by the root Makefile, which defines BUILD.
KSTATUS := $(BUILD)/bin/kstatus

$(KSTATUS): $(wildcard e2e/gitops/kstatus/*) | go-tool
	@mkdir -p $(dir $@)
	cd e2e/gitops/kstatus && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(abspath $@) .
