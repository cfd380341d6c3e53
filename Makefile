# What a developer runs. `make test` needs Go, Node with npm, Python 3 with venv, and a C compiler for the race detector;
# it installs everything else under build/, and PostgreSQL from Debian where it is missing. docs/development.md tells more.

# Linters are pinned here and nowhere else; they are no part of the module.
GOFUMPT     := go run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Where FUZZTIME per fuzz target is too little or too much, set it: make fuzz FUZZTIME=5m
FUZZTIME ?= 5s

.PHONY: build test setup conformance lint bench fuzz chaos clean

build:
	go build -o build/penstock ./cmd/penstock

# CI=true turns every skip for want of a peer into a failure.
test: setup
	go vet ./...
	CI=true go test -race -timeout 20m ./...
	CI=true go test -run 'Alloc|Memory|Model' ./internal/... ./test/taskcost # the race detector makes pools forget, and walks short

setup:
	scripts/setup-peers.sh
	scripts/setup-postgres.sh

conformance: setup
	go run ./test/conformance

lint:
	@out=$$($(GOFUMPT) -l $$(scripts/go-files.sh)); if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi
	go vet ./...
	go -C test/peers/golang vet ./...
	$(STATICCHECK) ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: .golangci.yml not checked"; fi

bench:
	go run ./bench
	go test -count=1 -v ./test/taskcost

fuzz:
	scripts/fuzz.sh $(FUZZTIME)

# The long form of the tests in which everything dies; `make test` runs the short one.
chaos: setup
	CI=true PENSTOCK_CHAOS=long go test -count=1 -timeout 60m -v ./test/chaos

clean:
	rm -rf build
