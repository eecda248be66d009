# A real Kubernetes, a real S3 server and the images, from sources by pinned version. Included by the root Makefile.
# Everything lands in build/ and is built again only when one of its inputs changed.

CLUSTER_DIR ?= $(BUILD)/cluster
NODES ?= 1

CLUSTER := $(BUILD)/bin/cluster
VERSITYGW := $(BUILD)/bin/versitygw
VERSITYGW_VERSION := v1.8.0
IMAGES_DIR := $(BUILD)/images
CLUSTER_SOURCES := $(shell find e2e/cluster -name '*.go' ! -name '*_test.go') $(wildcard e2e/cluster/internal/render/templates/*)
BASE_IMAGE := localhost/statefulspark-base:1
JOB_IMAGE := localhost/statefulspark:dev
OPERATOR_IMAGE := localhost/statefulspark-operator:dev
FLIGHTS_IMAGE := localhost/statefulspark-flights:dev

# Without these every component reports v0.0.0 and refuses its peers as too old.
KUBERNETES_VERSION := v1.34.4
VERSION_PACKAGE := k8s.io/component-base/version
CLUSTER_LDFLAGS := -s -w -X $(VERSION_PACKAGE).gitVersion=$(KUBERNETES_VERSION) -X $(VERSION_PACKAGE).gitMajor=1 \
	-X $(VERSION_PACKAGE).gitMinor=34 -X github.com/statefulspark/e2e/cluster/internal/cli.Version=$(KUBERNETES_VERSION)

# What a cluster of our own takes besides images; with KUBECONFIG set, none is started. kubectl and helm are used anyway.
CLUSTER_NEEDS = $(CLUSTER) $(HELM) $(if $(KUBECONFIG),,$(VERSITYGW) cluster-tools)

.PHONY: images cluster-up cluster-down cluster-test cluster-smoke go-tool cluster-tools chromium image-tools

go-tool:
	@command -v go >/dev/null || { echo "Go 1.24 or newer is needed; install it from go.dev, or the package golang-go."; exit 1; }

$(CLUSTER): $(CLUSTER_SOURCES) e2e/cluster/go.mod e2e/cluster/go.sum | go-tool
	@mkdir -p $(dir $@)
	@echo "Building Kubernetes $(KUBERNETES_VERSION) as one program (several minutes the first time, seconds later)"
	cd e2e/cluster && CGO_ENABLED=0 go build -trimpath -ldflags '$(CLUSTER_LDFLAGS)' -o $(abspath $@) .

$(VERSITYGW): | go-tool
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)

# Debian packages, when root and only those that are missing. $(1): programs, $(2): packages
need = @missing=""; for program in $(1); do command -v $$program >/dev/null || [ -x $$program ] || missing="$$missing $$program"; done; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null; } \
	|| { echo "Missing:$$missing. As root this installs them itself; otherwise: sudo apt-get install $(2)"; exit 1; }

cluster-tools:
	$(call need,containerd runc ctr iptables nft /usr/lib/cni/bridge,containerd runc containernetworking-plugins iptables nftables)

chromium:
	$(call need,chromium,chromium fonts-dejavu-core)

image-tools:
	$(call need,buildah debootstrap gpgv skopeo unshare,buildah debootstrap gpgv debian-archive-keyring skopeo util-linux)

$(IMAGES_DIR)/pause.tar: e2e/cluster/pause/main.go | $(CLUSTER)
	@mkdir -p $(IMAGES_DIR)/pause
	cd e2e/cluster && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(abspath $(IMAGES_DIR))/pause/pause ./pause
	$(CLUSTER) images pack --name localhost/pause:1 --entrypoint /pause $(IMAGES_DIR)/pause $@

$(IMAGES_DIR)/base.tar: e2e/images/base.sh | $(CLUSTER) image-tools
	e2e/images/base.sh $(CLUSTER) $(BASE_IMAGE) $@

# An image that is built is a stamp; it becomes a file when a node shall load it. The files that go into the images' own
# layers are named here; what pip installs is keyed by the lock files inside the build.
IMAGE_STORAGE := $(IMAGES_DIR)/storage
BUILD_IMAGE := e2e/images/build.sh
JOB_SOURCES = jobruntime/pyproject.toml jobruntime/hatch_build.py jobruntime/LICENSE jobruntime/README.md $(shell find jobruntime/src -type f ! -path '*/__pycache__/*' ! -path '*/jars/*')
OPERATOR_SOURCES = operator/pyproject.toml operator/LICENSE operator/README.md $(shell find operator/src -type f ! -path '*/__pycache__/*')
DOCKERFILE_TOOLS := .dockerignore requirements/build.txt $(BUILD_IMAGE)

$(IMAGES_DIR)/base.built: $(IMAGES_DIR)/base.tar $(BUILD_IMAGE)
	$(BUILD_IMAGE) $(IMAGE_STORAGE) import $< $(BASE_IMAGE)
	@touch $@

$(IMAGES_DIR)/job.built: $(IMAGES_DIR)/base.built $(DOCKERFILE_TOOLS) jobruntime/Dockerfile jobruntime/entrypoint.sh $(wildcard jobruntime/image/*.py) requirements/job.txt $(JOB_SOURCES) $(CHECKPOINT_JAR)
	$(BUILD_IMAGE) $(IMAGE_STORAGE) build $(BASE_IMAGE) jobruntime/Dockerfile . $(JOB_IMAGE)
	@touch $@

$(IMAGES_DIR)/operator.built: $(IMAGES_DIR)/base.built $(DOCKERFILE_TOOLS) operator/Dockerfile requirements/operator.txt $(OPERATOR_SOURCES) $(JOB_SOURCES)
	$(BUILD_IMAGE) $(IMAGE_STORAGE) build $(BASE_IMAGE) operator/Dockerfile . $(OPERATOR_IMAGE)
	@touch $@

$(IMAGES_DIR)/flights.built: $(IMAGES_DIR)/job.built $(wildcard examples/flights/*.py) examples/flights/Dockerfile
	$(BUILD_IMAGE) $(IMAGE_STORAGE) build $(JOB_IMAGE) examples/flights/Dockerfile examples/flights $(FLIGHTS_IMAGE)
	@touch $@

$(IMAGES_DIR)/job.tar: IMAGE = $(JOB_IMAGE)
$(IMAGES_DIR)/operator.tar: IMAGE = $(OPERATOR_IMAGE)
$(IMAGES_DIR)/flights.tar: IMAGE = $(FLIGHTS_IMAGE)
$(IMAGES_DIR)/job.tar $(IMAGES_DIR)/operator.tar $(IMAGES_DIR)/flights.tar: %.tar: %.built
	$(BUILD_IMAGE) $(IMAGE_STORAGE) export $(IMAGE) $@

images: $(IMAGES_DIR)/pause.tar $(IMAGES_DIR)/operator.tar $(IMAGES_DIR)/flights.tar ## Build the images of operator and example job into build/images, without a registry

cluster-up: ## Start a Kubernetes cluster on this machine (NODES=1, CLUSTER_DIR=build/cluster), or use KUBECONFIG if set
ifneq ($(KUBECONFIG),)
	@echo "KUBECONFIG is set: using the cluster of $(KUBECONFIG); nothing is started."
else
cluster-up: $(CLUSTER) $(VERSITYGW) $(IMAGES_DIR)/pause.tar cluster-tools
	$(CLUSTER) up --dir $(CLUSTER_DIR) --nodes $(NODES) --bucket statefulspark
	@echo 'eval "$$($(CLUSTER) env --dir $(CLUSTER_DIR))" points your shell at it.'
endif

cluster-down: ## Take that cluster down without a trace
	@[ ! -x $(CLUSTER) ] || $(CLUSTER) down --dir $(CLUSTER_DIR)

cluster-test: go-tool ## Check and test the cluster program itself (no root)
	cd e2e/cluster && test -z "$$(gofmt -l .)" && go vet ./internal/... ./pause && go test ./internal/...

cluster-smoke: $(CLUSTER) $(VERSITYGW) $(IMAGES_DIR)/pause.tar $(IMAGES_DIR)/base.tar cluster-tools ## Prove the cluster: pods, DNS, Services, S3, node loss, and no trace afterwards (root)
	cd e2e/cluster && go test -v -count=1 -timeout 10m -tags smoke ./smoke -build $(abspath $(BUILD))
