# Everything that is done with this repository. "make help" lists it.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X trawl/internal/spec.Version=$(VERSION)
TOOLS := $(CURDIR)/.cache/tools
GOLANGCI_VERSION := v2.15.0
WORKFLOWCHECK_VERSION := v0.6.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
WORKFLOWCHECK := $(TOOLS)/workflowcheck-$(WORKFLOWCHECK_VERSION)
MAX_BINARY := 41943040 # 40 MB

# Counts the packages that "go build -v" names, and lets everything else pass.
COUNT := awk '/^[a-z0-9.-]+(\/[A-Za-z0-9._~-]+)*$$/ { n++; if (n % 50 == 0) print "  " n " packages compiled"; next } { print }'

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

.PHONY: build
build: ## Build bin/worker and bin/starter
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/worker ./worker
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/starter ./starter

.PHONY: build-dev
build-dev: ## Build bin/trawl-dev and bin/demo (minutes, the first time)
	@echo "Building the development stack. It contains the Temporal server: some 2,000 packages, minutes on a cold machine, seconds after that."
	cd dev && go build -v -o ../bin/trawl-dev . 2>&1 | $(COUNT)
	cd dev && go build -o ../bin/demo ./cmd/demo

.PHONY: demo
demo: build build-dev ## Crawl the bundled sample site, compare, search, stop
	bin/demo

.PHONY: up
up: build build-dev ## Start the stack and a worker, and leave them (ARGS go to the stack)
	bin/demo up $(ARGS)

.PHONY: down
down: ## Stop what "make up" started
	@test -x bin/demo || { echo "there is no bin/demo, so \"make up\" was not run here"; exit 1; }
	bin/demo down

.PHONY: test
test: ## Test the main module, with the race detector; needs no server
	go test -race ./...
	go test -run Alloc ./internal/kafkalog ./internal/transform

.PHONY: test-stack
test-stack: build build-dev ## Test what needs the embedded servers
	cd dev && HARNESS_BIN=$(CURDIR)/bin go test -count=1 -p 1 -parallel 3 ./...

LABEL ?= current

.PHONY: histories
histories: build build-dev ## Record histories of small crawls for the replay test; LABEL=v1.2.3 for a release
	cd dev && HARNESS_BIN=$(CURDIR)/bin go test -count=1 ./e2e/histories -record $(CURDIR)/workflows/testdata/histories -label $(LABEL)

.PHONY: test-real
test-real: build build-dev ## Test on a real Kafka, OpenSearch and Elasticsearch; needs a JDK and Maven
	deploy/realstack/test.sh

.PHONY: e2e-loader
e2e-loader: build build-dev ## Every fault of the loader's table: once, for 60 s on a fake clock, with kill -9 (15 minutes)
	go test -count=1 -run 'TestMatrix' -v ./internal/ingest | grep -v '^=== RUN\|--- PASS'
	cd dev && LOADER_CELLS=all HARNESS_BIN=$(CURDIR)/bin go test -count=1 -timeout 30m -parallel 5 -run 'TestKill' -v ./e2e/loader | grep -v '^=== \(RUN\|PAUSE\|CONT\)\|--- PASS'

.PHONY: e2e-docs
e2e-docs: build build-dev ## Crawl the manual of Python and compare with wget; needs apt-get
	cd dev && HARNESS_BIN=$(CURDIR)/bin go test -tags e2edocs -count=1 -v ./e2e/docs

.PHONY: lint
lint: $(GOLANGCI) $(WORKFLOWCHECK) ## Formatting, linters, workflow determinism of the main module
	$(GOLANGCI) run --allow-serial-runners ./...
	$(WORKFLOWCHECK) -config .workflowcheck.yml ./workflows/...

.PHONY: lint-dev
lint-dev: $(GOLANGCI) ## The same linters on the development module
	cd dev && $(GOLANGCI) run --allow-serial-runners -c ../.golangci.yml ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## Format everything
	$(GOLANGCI) fmt ./...
	cd dev && $(GOLANGCI) fmt -c ../.golangci.yml ./...

.PHONY: size
size: build ## Refuse a worker or starter of 40 MB or more
	@for f in bin/worker bin/starter; do \
		n=$$(stat -c %s $$f); echo "$$f: $$n bytes"; \
		if [ $$n -ge $(MAX_BINARY) ]; then echo "$$f is too large: the limit is $(MAX_BINARY) bytes"; exit 1; fi; \
	done

WEB ?=
PAGES ?= 0
ROUNDS ?= 0
CONTENDERS ?=
REAL ?=
BENCH := bin/bench -bin bin -web '$(WEB)' -pages $(PAGES) -rounds $(ROUNDS)

.PHONY: bench
bench: build build-dev build-bench ## Measure trawl beside other crawlers (WEB, PAGES, ROUNDS, CONTENDERS=a,b, REAL=1)
	$(BENCH) -only '$(CONTENDERS)' $(if $(REAL),-also trawl-kafka-real-1w) -json dist/bench.json

PEERS := dist/peers
PEER_CONTENDERS := raw-store,trawl-kafka-1w,spider-memory,spider,scrapy-jobdir

.PHONY: bench-peers
bench-peers: build build-dev build-bench peers ## Measure trawl beside Scrapy and the spider crate; needs Python, Rust, minutes
	$(BENCH) -peers $(PEERS) -only '$(or $(CONTENDERS),$(PEER_CONTENDERS))' -json dist/bench-peers.json

.PHONY: peers
peers: ## Install Scrapy and build the spider crate into dist/peers
	test -x $(PEERS)/scrapy/bin/pip || python3 -m venv $(PEERS)/scrapy
	$(PEERS)/scrapy/bin/pip install -q --disable-pip-version-check -r bench/peers/scrapy/requirements.txt
	cargo build --release --locked --manifest-path bench/peers/spider/Cargo.toml --target-dir $(PEERS)/spider

.PHONY: profile
profile: build build-dev build-bench ## Profiles of the worker during a crawl of the bench's site, into dist/profile (WEB, PAGES)
	bin/bench -bin bin -web '$(WEB)' -pages $(if $(filter 0,$(PAGES)),40000,$(PAGES)) -profile dist/profile

.PHONY: build-bench
build-bench: ## Build the site server, the contenders and the benchmark
	CGO_ENABLED=0 go build -trimpath -o bin/webserver ./bench/cmd/webserver
	CGO_ENABLED=0 go build -trimpath -o bin/contender ./bench/cmd/contender
	CGO_ENABLED=0 go build -trimpath -o bin/bench ./bench/cmd/bench

SMALL ?= 1000000
LARGE ?= 200000
IN_SQLITE ?= 100000
LOAD_ROUNDS ?= 3

.PHONY: bench-load
bench-load: ## Measure the loader beside the simplest program, on a real Kafka and OpenSearch (SMALL, LARGE, IN_SQLITE, LOAD_ROUNDS; 15 minutes); needs a JDK and Maven
	CGO_ENABLED=0 go build -trimpath -o bin/benchload ./bench/cmd/benchload
	deploy/realstack/bench.sh -small $(SMALL) -large $(LARGE) -sqlite $(IN_SQLITE) -rounds $(LOAD_ROUNDS)

.PHONY: microbench
microbench: ## Run the Go benchmarks of the main module
	go test -run '^$$' -bench . ./...

.PHONY: clean
clean: ## Remove what was built, but not the tools
	rm -rf bin dist

$(GOLANGCI):
	@echo "Building golangci-lint $(GOLANGCI_VERSION), once."
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

$(WORKFLOWCHECK):
	GOBIN=$(TOOLS) go install go.temporal.io/sdk/contrib/tools/workflowcheck@$(WORKFLOWCHECK_VERSION)
	mv $(TOOLS)/workflowcheck $@
