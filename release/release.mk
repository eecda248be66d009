# What is given to users: wheels, images, chart, bills of materials, licences, notes. Included by the root Makefile.
SYFT_VERSION := v1.44.0
SYFT := $(BUILD)/bin/syft
OSV_SCANNER_VERSION := v2.5.0
OSV_SCANNER := $(BUILD)/bin/osv-scanner

.PHONY: release surface verify-release audit
release: $(STAMPS)/venv jars images $(IMAGES_DIR)/job.tar $(HELM) $(SYFT) ## Build wheels, images, chart, bills of materials and notes of a release into dist/ (RELEASE_ARGS=--snapshot)
	$(BIN)/python -m release $(RELEASE_ARGS)
RELEASE_ARGS ?=
DIST ?= dist

surface: $(STAMPS)/venv ## Write what the version of this tree promises (CRDs, Python names, HTTP, commands, metrics) into release/surfaces/, for the commit of a release
	$(BIN)/python -m release.surface --write

verify-release: $(STAMPS)/venv $(HELM) ## Verify the files of a release, its bills of materials, and who made it (DIST=dist KEY=cosign.pub, or IDENTITY= and ISSUER=; KEYRING= for the chart)
	$(BIN)/python -m release.verify $(DIST) $(if $(KEY),--key '$(KEY)') $(if $(IDENTITY),--identity '$(IDENTITY)') $(if $(ISSUER),--issuer '$(ISSUER)') $(if $(KEYRING),--keyring '$(KEYRING)')

audit: $(STAMPS)/venv $(OSV_SCANNER) ## Ask osv.dev about known vulnerabilities of all parts of a release (DIST=dist), or a copy of its database (DATABASE=folder)
	$(BIN)/python -m release.audit $(DIST) $(if $(DATABASE),--database '$(DATABASE)')

$(SYFT): release/release.mk | go-tool
	@mkdir -p $(dir $@)
	@echo "Building syft $(SYFT_VERSION), which lists what images and wheels contain (minutes, once)"
	GOBIN=$(abspath $(dir $@)) CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' github.com/anchore/syft/cmd/syft@$(SYFT_VERSION)
	@touch $@

$(OSV_SCANNER): release/release.mk | go-tool
	@mkdir -p $(dir $@)
	@echo "Building osv-scanner $(OSV_SCANNER_VERSION), which knows how versions compare (minutes, once)"
	GOBIN=$(abspath $(dir $@)) CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' github.com/google/osv-scanner/v2/cmd/osv-scanner@$(OSV_SCANNER_VERSION)
	@touch $@
