# The two commands a newcomer needs are `make demo` and `make test`; `make help` lists the rest.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BINARIES   := gpu-agent gpu-scheduler gpuctl gpuctl-server gpu-sandbox gpu-probe gpu-controller gpu-ledger
# Those of them that the demo runs.
DEMO       := gpu-scheduler gpuctl gpuctl-server gpu-sandbox gpu-controller gpu-ledger
REGISTRY   ?= registry.example.com/g8s
# The versions of Kubernetes, beside the sandbox's own, that make compat tests against: folders of hack/tools/compat.
COMPAT     ?= 1.34 1.35 1.36
# The release that make test-upgrade upgrades from. There is no tag yet: this is the last state before the day of v0.1.0, and has
# neither chart, ledger, SpotPools nor reservations. Afterwards it is the last release's tag.
OLD        ?= 589efc7c4d1c7d664a49c81b7339ef516eef8196
# The packages with unit tests, and those with tests on clusters.
UNITS      := ./cli/... ./manifests/... ./pkg/... ./plugins/...
CLUSTERS   := ./cmd/... ./hack/... ./test/...
# How often make test-all runs a test on a cluster again that failed, and after how many failures it does not: of a thousand tests one
# may fail by chance. A subtest fails with the test that it is a part of.
RERUN      ?= 1
FLAKES     ?= 4
# What make check lints the change against: the branch that it is for.
BASE       ?= $(shell git rev-parse --quiet --verify --abbrev-ref origin/HEAD 2>/dev/null || echo HEAD)
# Where the archives of images go.
IMAGES     ?= bin/images
# Where the files of a release will lie; VERSION in it is the version.
RELEASE_URL ?= https://example.com/g8s/releases/VERSION
# Where its source lies, and whose machine builds it: a CI system names itself.
SOURCE_URL ?= https://example.com/g8s
BUILDER_ID ?= $(SOURCE_URL)/builders/by-hand
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' go.mod)
# kube-scheduler reports the first of these to `--version` and to the API server as its user agent. What debuggers read is left out:
# people fetch gpuctl, and it is a third of it.
LDFLAGS    := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES)+g8s.$(VERSION) \
	-X g8s.host/gpu-scheduler/cli.version=$(VERSION) \
	-X g8s.host/gpu-scheduler/pkg/program.release=$(VERSION)
# The race detector needs a C compiler, which a machine with only Go, make and git has not.
RACE       := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)
# So does NVIDIA's library. Without one gpu-agent knows no cards but those of a file, and says so.
AGENT_CGO  := $(if $(RACE),1,0)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: help build tools monitoring-tools test test-all check chaos compat conformance abuse demo demo-down demo-programs bench bench-matrix bench-placement bench-placement-worst bench-plugins bench-queueing bench-queueing-intervals bench-queueing-learnt bench-scrape bench-strategies generate verify vulncheck lint image image-docker release clean node-images node-tools node-tools-if-possible gpu-bundle console test-console test-node test-upgrade test-operators

build: ## Build our binaries into bin/
	@mkdir -p bin
	@echo "building $(BINARIES)" >&2
	@CGO_ENABLED=0 go build -ldflags "$(LDFLAGS)" -o bin/ $(patsubst %,./cmd/%,$(filter-out gpu-agent,$(BINARIES)))
	@CGO_ENABLED=$(AGENT_CGO) go build -tags netgo,osusergo -ldflags "$(LDFLAGS)" -o bin/ ./cmd/gpu-agent
	@[ "$$(wc -c <bin/gpuctl)" -le 80000000 ] || { echo "bin/gpuctl is larger than 80 MB" >&2; exit 1; }

tools: ## Build the control plane (etcd, kube-apiserver, …) into bin/tools; first time about 5 minutes
	@hack/tools/build.sh

node-tools: ## Build what a real node runs (kubelet, containerd, …) into bin/tools; first time about 4 minutes
	@hack/tools/build.sh node

monitoring-tools: ## Build promtool and Prometheus, which test manifests/monitoring, into bin/tools; first time about 4 minutes
	@hack/tools/build.sh monitoring

node-tools-if-possible: build
	@if bin/gpu-sandbox check --machine-only >/dev/null 2>&1; then hack/tools/build.sh node || echo "the programs of a real node were not built" >&2; fi

# Without cgo, as the programs of the control plane are built: what both import is compiled once. go vet is a part of make verify.
test: tools build bin/tools/helm bin/tools/gotestsum ## Run what a change can break, in 20 minutes: unit tests, and those on a real control plane that are no longer than need be
	CGO_ENABLED=0 go test -vet=off -short -timeout 20m $(UNITS)
	CGO_ENABLED=0 bin/tools/gotestsum --format pkgname-and-test-fails --jsonfile bin/test.json --packages="$(CLUSTERS)" -- -vet=off -short -count=1 -timeout 20m
	@bin/tools/gotestsum tool slowest --jsonfile bin/test.json --threshold 20s --num 20

test-all: tools monitoring-tools node-tools-if-possible build bin/tools/helm bin/tools/gotestsum ## Run all tests, an hour: with the race detector, the long ones, a real node, Prometheus
	go test $(RACE) -timeout 20m $(UNITS)
	CGO_ENABLED=0 bin/tools/gotestsum --format pkgname-and-test-fails --jsonfile bin/test.json --rerun-fails=$(RERUN) --rerun-fails-max-failures=$(FLAKES) \
		--rerun-fails-run-root-test --packages="$(CLUSTERS)" -- -vet=off -count=1 -timeout 20m
	@bin/tools/gotestsum tool slowest --jsonfile bin/test.json --threshold 30s
	@cd hack/tools/release && go test ./...
	@cd console/build && go test ./...
	@bin/gpu-sandbox check >/dev/null || echo "*** NOTHING WAS TESTED ON A REAL NODE (test/node): see the error above" >&2

check: tools build bin/tools/golangci-lint ## Check a change while working on it, about 5 minutes: units, lint since BASE, jobs on a real control plane
	CGO_ENABLED=0 go test -vet=off -short $(UNITS) ./test/architecture ./test/wrapped
	bin/tools/golangci-lint run --new-from-merge-base=$(BASE) ./...
	CGO_ENABLED=0 go test -vet=off ./test/e2e

node-images: # The images of the manifests, as a real node of test/node runs them
	@$(MAKE) --no-print-directory image IMAGES=bin/node-images \
		VERSION=$$(awk '$$1 == "appVersion:" {print $$2}' manifests/chart/Chart.yaml) \
		IMAGE="-platforms linux/$$(go env GOARCH) gpu-scheduler gpu-controller gpuctl-server gpu-ledger gpu-agent"

test-node: tools node-tools build node-images ## Test a real kubelet with gpu-agent at length, as root; hours. NODE_TEST="-containers 1000" for less
	BOUNDS=docs go test ./test/node -count=1 -v -timeout 8h -long -containers 10000 -outages 50 -upgrades 40 -rivals 20 -rounds 10 -crowd 100 -starters 200 $(NODE_TEST)

console: ## Bundle the console from console/ into pkg/server/console/dist; needs Go, and the network the first time
	@hack/console.sh

test-console: tools build ## Test the console in a real browser; installs Debian's chromium if it may. CONSOLE_TEST="-pictures FOLDER" writes pictures
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -yq --no-install-recommends chromium fonts-noto-cjk; } || \
		echo "install chromium by hand: without it every test is skipped" >&2
	CGO_ENABLED=0 go test -vet=off ./test/console -count=1 -v -timeout 20m $(CONSOLE_TEST)

test-operators: tools build ## Test with the operators of other projects, whose workloads are gangs: KubeRay, JobSet, LWS, Kubeflow; builds them the first time, about 15 minutes
	@hack/tools/build.sh operators
	go test ./test/operators -count=1 -v -timeout 30m $(OPERATORS_TEST)

gpu-bundle: node-tools build ## Pack what shows agent, kubelet and containerd on a real card into bin/gpu-bundle.tar.xz, for a machine with a driver and no network
	@hack/gpu-bundle.sh

chaos: tools build ## Kill and stop the leading scheduler 20 times each while it places pods, and lose answers; have nodes die as installed; about 16 minutes
	BOUNDS=docs go test ./test/chaos -count=1 -v -timeout 30m -kills 20 -stops 20 -losses 20 -vain 5
	BOUNDS=docs go test ./test/chaos -count=1 -v -timeout 30m -kills 5 -losses 5 -without-policies
	BOUNDS=docs go test ./test/integration/shipped -count=1 -v -timeout 30m

compat: tools build ## Test against API servers of other versions, COMPAT="1.34 1.35 1.36", into docs/upgrade.md; the first time half an hour to build each
	CGO_ENABLED=0 go run ./test/compat/run $(COMPAT)

conformance: tools ## Run Kubernetes' own tests of its scheduler with ours and with stock, into docs/benchmarks/conformance.md; CONFORMANCE="-suites scoring" for less
	nice go run ./test/conformance/run $(CONFORMANCE)

test-upgrade: tools build ## Replace another release by this one, and take it back, under load; 4 minutes. OLD=v0.1.0 names the other, UPGRADE_TEST=-kill kills its programs
	old=$$(hack/upgrade.sh $(OLD)); BOUNDS=docs go test ./test/upgrade -count=1 -v -timeout 30m -rest 10s -old "$$old" $(UPGRADE_TEST)

abuse: tools build ## Do to the programs all that hostile users can, every round of it; half an hour. ABUSE_SEED=n repeats one
	ABUSE=all BOUNDS=docs go test ./test/abuse/... -count=1 -p 1 -v -timeout 60m

demo: ## Start a cluster of simulated GPU nodes, submit jobs to it, show where they land and why
	@hack/tools/build.sh demo
	@hack/demo.sh

demo-programs: # Those of our binaries that the demo runs, as make build builds them
	@mkdir -p bin
	@echo "building $(DEMO)" >&2
	@CGO_ENABLED=0 go build -ldflags "$(LDFLAGS)" -o bin/ $(patsubst %,./cmd/%,$(DEMO))

demo-down: ## Stop the cluster of `make demo`
	@if [ -x bin/gpu-sandbox ]; then bin/gpu-sandbox down; fi

bench: tools build ## Measure speed against the stock scheduler into docs/benchmarks/speed.md, hours; BENCH="--rounds 1" for less
	go run ./test/bench/load/speed --out docs/benchmarks/speed.md --data docs/benchmarks/speed.json $(BENCH)

bench-matrix: ## Measure what a pod costs over shapes of pods and states of clusters, into docs/benchmarks/matrix.md; half an hour
	go run ./test/bench/load/matrix $(BENCH)

bench-plugins: ## Run the benchmarks of the plugins and of their pure parts
	go test -run '^$$' -bench . -benchmem ./pkg/gpu/... ./plugins/...

bench-strategies: ## Compare the strategies of GPUScore on whole GPUs, into docs/benchmarks/strategies.md; minutes
	go run ./test/bench/strategies

bench-queueing: ## Replay Philly's jobs under queueing policies, into docs/benchmarks/queueing.md; about 2 minutes
	go run ./test/bench/queueing/run --nodes 80,96,64 --ties 10 --reference test/bench/queueing/testdata/reference.csv --page docs/benchmarks/queueing.md

bench-queueing-intervals: ## How true the intervals are in which jobs are said to start, into docs/benchmarks/queueing.md; about a minute
	go run ./test/bench/queueing/run --intervals 25 --policy backfill --page docs/benchmarks/queueing.md

bench-queueing-learnt: ## Replay Philly's jobs under policies that learn run times, into docs/benchmarks/queueing.md; about 5 minutes
	go run ./test/bench/queueing/run --policy backfill,easy-nodes,learnt,learnt-own,learnt-short,learnt-large,learnt-52h --ties 4 --page docs/benchmarks/queueing.md

bench-scrape: tools monitoring-tools build ## Measure what it costs to watch 1,000 nodes with Prometheus, as docs/monitoring.md has it; 7 minutes
	go run ./test/bench/scrape $(BENCH)

bench-placement: ## Run the published placement benchmark; BENCH_TRACES=DIR adds traces, BENCH_SEEDS=n sets how many seeds
	go run ./test/bench/placement/run -traces "$(BENCH_TRACES)" -seeds $(or $(BENCH_SEEDS),10)

bench-placement-worst: ## Print the worst seed of each variant of the default trace; BENCH_SEEDS=n sets how many seeds
	go run ./test/bench/placement/run -worst -first-seed 1 -seeds $(or $(BENCH_SEEDS),50)

generate: ## Write the generated files: deep copies, reference pages
	@hack/generate.sh

lint: bin/tools/golangci-lint ## Run golangci-lint
	bin/tools/golangci-lint run ./...

verify: generate lint vulncheck ## Fail if generated files, formatting or modules are not up to date, or code is known to be vulnerable
	@hack/verify.sh

vulncheck: bin/tools/govulncheck ## Look for known vulnerabilities that our programs reach; VULNCHECK=required fails without a network
	@hack/vulncheck.sh

image: ## Make the container images as OCI archives in bin/images, for amd64 and arm64, without Docker; IMAGE="-push" sends them
	@cd hack/tools/release && go run ./image -root ../../.. -out ../../../$(IMAGES) -registry "$(REGISTRY)" -version "$(VERSION)" \
		-epoch "$$(git log -1 --format=%ct)" -ldflags "$(LDFLAGS)" $(IMAGE)

image-docker: ## Build them with Docker, gpu-agent with NVIDIA's library; BUILD_IMAGE, BASE_IMAGE and AGENT_BASE_IMAGE name others to build on, by digest
	@case "$(BUILD_IMAGE)$(BASE_IMAGE)" in *@sha256:*@sha256:*) ;; \
		*) echo "warning: the images are built on tags, which can change: set BUILD_IMAGE and BASE_IMAGE to NAME@sha256:DIGEST" >&2;; esac
	@for binary in $(filter-out gpu-sandbox gpu-probe,$(BINARIES)); do \
		docker build --build-arg BINARY=$$binary --build-arg LDFLAGS="$(LDFLAGS)" \
			$(if $(BUILD_IMAGE),--build-arg BUILD_IMAGE=$(BUILD_IMAGE)) $(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) \
			$$([ $$binary != gpu-agent ] || echo --build-arg CGO_ENABLED=1 --build-arg RUN_AS=0:0 \
				--build-arg BASE_IMAGE=$(or $(AGENT_BASE_IMAGE),gcr.io/distroless/base)) \
			-t $(REGISTRY)/$$binary:$(VERSION) .; done

release: bin/tools/helm ## Make gpuctl for every system, the chart, checksums and provenance in bin/release: make release VERSION=v1.2.3; RELEASE="-platforms linux/amd64" for less
	@RELEASE="$(RELEASE)" VERSION="$(VERSION)" REGISTRY="$(REGISTRY)" RELEASE_URL="$(RELEASE_URL)" SOURCE_URL="$(SOURCE_URL)" BUILDER_ID="$(BUILDER_ID)" LDFLAGS="$(LDFLAGS)" hack/release.sh

clean: demo-down ## Remove what was built
	rm -rf bin

bin/tools/helm: go.mod hack/tools/helm/go.mod hack/tools/helm/go.sum
	@mkdir -p bin/tools
	@echo "building helm" >&2
	@# Without a version of Kubernetes it takes itself for one of 1.20, and templates for that.
	@minor=$(word 2,$(subst ., ,$(KUBERNETES))); cd hack/tools/helm && go build -ldflags "-s -w \
		$$(printf -- '-X helm.sh/helm/v3/pkg/%s=%s ' lint/rules.k8sVersionMajor 1 lint/rules.k8sVersionMinor $$minor \
			chartutil.k8sVersionMajor 1 chartutil.k8sVersionMinor $$minor)" -o ../../../bin/tools/ helm.sh/helm/v3/cmd/helm
	@touch $@

bin/tools/gotestsum: hack/tools/gotestsum/go.mod hack/tools/gotestsum/go.sum
	@mkdir -p bin/tools
	@echo "building gotestsum" >&2
	@cd hack/tools/gotestsum && go build -ldflags '-s -w' -o ../../../bin/tools/ gotest.tools/gotestsum
	@touch $@

bin/tools/%: hack/tools/dev/go.mod
	@mkdir -p bin/tools
	@echo "building $*" >&2
	@cd hack/tools/dev && go build -ldflags '-s -w' -o ../../../bin/tools/ \
		$$(go list -f '{{.ImportPath}}' tool | grep '/$*$$')
	@touch $@
