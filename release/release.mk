# What is given to users: wheels, images, chart, bills of materials, licences, notes. Included by the root Makefile.
SYFT_VERSION := v1.44.0
SYFT := $(BUILD)/bin/syft

.PHONY: release verify-release
release: $(STAMPS)/venv jars images $(IMAGES_DIR)/job.tar $(HELM) $(SYFT) ## Build wheels, images, chart, bills of materials and notes of a release into dist/ (RELEASE_ARGS=--snapshot)
	$(BIN)/python -m release $(RELEASE_ARGS)
RELEASE_ARGS ?=
DIST ?= dist

verify-release: $(STAMPS)/venv $(HELM) ## Verify the files of a release, its bills of materials, and who made it (DIST=dist KEY=cosign.pub, or IDENTITY= and ISSUER=; KEYRING= for the chart)
	$(BIN)/python -m release.verify $(DIST) $(if $(KEY),--key '$(KEY)') $(if $(IDENTITY),--identity '$(IDENTITY)') $(if $(ISSUER),--issuer '$(ISSUER)') $(if $(KEYRING),--keyring '$(KEYRING)')

$(SYFT): release/release.mk | go-tool
	@mkdir -p $(dir $@)
	@echo "Building syft $(SYFT_VERSION), which lists what images and wheels contain (minutes, once)"
	GOBIN=$(abspath $(dir $@)) CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' github.com/anchore/syft/cmd/syft@$(SYFT_VERSION)
	@touch $@
