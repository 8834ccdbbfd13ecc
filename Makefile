# `make` alone prints what it can do.

SHELL := bash -euo pipefail
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# One set of build settings for programs, tests and linters, so that they share the build cache: the control plane takes
# minutes to compile once. The version is stamped below, also where git does not trust the folder.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false $(GOFLAGS)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LINT := go tool -modfile=$(CURDIR)/tools.mod golangci-lint
PROGRAMS := etcd kube-apiserver kube-controller-manager kube-scheduler kuberay-operator kwok

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build sandbox ## run the portal on a real control plane with a simulated GPU fleet; Ctrl-C stops it
	@.ci/install postgres compiler python
	@bin/rayslice demo --dir .demo --bin bin

.PHONY: demo-reset
demo-reset: build ## forget the demo's data
	@bin/sandbox reset --dir .demo
	@rm -f .demo/portal.log

.PHONY: test
test: build sandbox ## run every test, on a sandbox with a Postgres that it starts and stops
	@.ci/test

.PHONY: test-fast
test-fast: ## run the tests that need neither Postgres nor the sandbox
	go test ./...

.PHONY: test-python
test-python: build sandbox ## run the Python client's tests, its README and docs/notebook.ipynb against a portal
	@TEST_PACKAGES=./cmd/rayslice .ci/test -run TestPython -v

.PHONY: test-api
test-api: build sandbox ## run schemathesis over the API's specification against a portal
	@TEST_PACKAGES=./cmd/rayslice .ci/test -run TestSchemathesis -v

.PHONY: test-ray
test-ray: ## run the probe, the verifier and the way in on a real Ray from PyPI, with a stand-in for the GPU driver
	@.ci/install compiler python
	RAY_PYTHON=$$(.ci/ray) go test -count=1 -timeout 20m -p 1 -run RealRay ./k8s/probe ./k8s ./handlers

.PHONY: lint
lint: generate-check ## check style, floors and generated files
	$(LINT) run --allow-parallel-runners
	cd sandbox && $(LINT) run --allow-parallel-runners

.PHONY: fmt
fmt: ## format Go files as lint wants them
	$(LINT) fmt
	cd sandbox && $(LINT) fmt

TEMPL := go tool templ
OAPI := cd handlers/api && go tool -modfile=$(CURDIR)/tools.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml

.PHONY: generate
generate: ## write the Go files of the page templates and of the API's specification
	$(TEMPL) generate -path web
	$(OAPI)

.PHONY: generate-check
generate-check:
	@fingerprint() { find web handlers/api -name '*_templ.go' -o -name '*.gen.go' | sort | xargs cat | cksum; }; before=$$(fingerprint); \
	$(TEMPL) generate -path web -log-level error; $(OAPI); cd $(CURDIR); \
	[ "$$before" = "$$(fingerprint)" ] || { echo "generated files were not current; they are now: commit them" >&2; exit 1; }

.PHONY: build
build: ## build bin/rayslice and bin/sandbox
	go build -ldflags='-s -w -X main.version=$(VERSION)' -o bin/rayslice ./cmd/rayslice
	cd sandbox && go build -ldflags='-s -w' -o ../bin/sandbox .

.PHONY: sandbox
sandbox: $(PROGRAMS:%=bin/%) ## build the sandbox's control plane: etcd, Kubernetes, KubeRay and KWOK

# $(call program,number,minutes,folder,package) builds one of them.
define program
@.ci/room
@echo 'building $(@F) ($(1) of $(words $(PROGRAMS)), first time about $(2) min)…'
@cd $(3) && go build -ldflags='-s -w' -o $(abspath $@) $(4)
endef

bin/etcd: sandbox/go.mod sandbox/go.sum
	$(call program,1,1,sandbox,go.etcd.io/etcd/server/v3)
bin/kube-apiserver: sandbox/go.mod sandbox/go.sum
	$(call program,2,5,sandbox,k8s.io/kubernetes/cmd/kube-apiserver)
bin/kube-controller-manager: sandbox/go.mod sandbox/go.sum
	$(call program,3,3,sandbox,k8s.io/kubernetes/cmd/kube-controller-manager)
bin/kube-scheduler: sandbox/go.mod sandbox/go.sum $(wildcard sandbox/cmd/kube-scheduler/* sandbox/gpushare/*)
	$(call program,4,1,sandbox,./cmd/kube-scheduler)
bin/kuberay-operator: sandbox/kuberay/go.mod sandbox/kuberay/go.sum
	$(call program,5,3,sandbox/kuberay,github.com/ray-project/kuberay/ray-operator)
bin/kwok: sandbox/kwok/go.mod sandbox/kwok/go.sum
	$(call program,6,3,sandbox/kwok,sigs.k8s.io/kwok/cmd/kwok)

BENCH := --bin bin --dir .bench --version $(VERSION)

.PHONY: bench-apply
bench-apply: build sandbox ## measure how fast 500 approved requests become RayClusters, beside a bare apply loop
	@.ci/install postgres
	@go run ./bench/apply $(BENCH) $(ARGS)

.PHONY: bench-memory
bench-memory: build sandbox ## measure the portal's memory with 2,000 RayClusters and 6,000 pods
	@.ci/install postgres
	@go run ./bench/memory $(BENCH) $(ARGS)

.PHONY: bench-page
bench-page: build ## measure the server time of a request's page among 200 clusters
	@.ci/install postgres
	@go run ./bench/page $(BENCH) $(ARGS)

.PHONY: bench-quota
bench-quota: build ## measure accepted requests per second on a team's quota, beside pgbench
	@.ci/install postgres
	@go run ./bench/quota $(BENCH) $(ARGS)

.PHONY: bench-approvals
bench-approvals: build ## measure the server time of the approvals page among 10,000 requests
	@.ci/install postgres
	@go run ./bench/approvals $(BENCH) $(ARGS)

.PHONY: bench-api
bench-api: build ## measure the list of 200 clusters over the API, beside pgbench with the same SQL
	@.ci/install postgres
	@go run ./bench/api $(BENCH) $(ARGS)

.PHONY: bench-tabs
bench-tabs: build sandbox ## count the API-server requests that 500 open tabs cause, beside none
	@.ci/install postgres
	@go run ./bench/tabs $(BENCH) $(ARGS)

.PHONY: bench-sse
bench-sse: build sandbox ## measure memory and delay of 1,000 event streams, a fifth of which are never read
	@.ci/install postgres
	@go run ./bench/sse $(BENCH) $(ARGS)

.PHONY: bench-informers
bench-informers: build sandbox ## measure informers' memory: typed, as the portal keeps it, unstructured
	@.ci/install postgres
	@go run ./bench/informers $(BENCH) $(ARGS)

.PHONY: bench-collect
bench-collect: build ## measure what reading the use of 1,000 clusters of 5 slices costs
	@.ci/install postgres
	@go run ./bench/collect $(BENCH) $(ARGS)

.PHONY: bench-proxy
bench-proxy: build ## measure what the way through the portal to a dashboard costs
	@.ci/install postgres
	@go run ./bench/proxy $(BENCH) $(ARGS)

.PHONY: bench-verify
bench-verify: build sandbox ## measure how long a cluster waits for the certificates of its slices
	@.ci/install postgres compiler python
	@go run ./bench/verify $(BENCH) $(ARGS)

.PHONY: clean
clean: ## remove programs and what tests left; the demo's data stay
	@[ ! -x bin/sandbox ] || bin/sandbox reset --dir .test
	rm -rf bin build .test
