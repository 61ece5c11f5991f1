# Everything is installed below .tools/ and built into bin/; nothing else is
# written, apart from Go's caches and the packages that `make setup` names.

VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PI          := $(CURDIR)/.tools/node_modules/.bin/pi
LINTER      := v0.8.2
STATICCHECK := .tools/bin/staticcheck-$(LINTER)

.PHONY: build setup demo test bench clean

build:
	@echo "build: bin/pi-mcp and bin/pi-mcp-fake, version $(VERSION)"
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' \
		-o bin/ ./cmd/pi-mcp ./cmd/pi-mcp-fake

setup:
	@scripts/setup

demo: setup build
	@echo "demo: bin/pi-mcp with the pi in .tools/"
	@PI_MCP_PI=$(PI) bin/pi-mcp demo

test: setup $(STATICCHECK)
	@echo "test: gofmt"
	@files=$$(find . -name '.?*' -prune -o -name '*.go' -exec gofmt -l {} +) && \
		if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	@echo "test: go vet"
	@go vet ./...
	@echo "test: staticcheck $(LINTER)"
	@$(STATICCHECK) ./...
	@echo "test: go test -race"
	@CGO_ENABLED=1 go test -race -timeout 25m ./...

bench: setup
	@echo "bench: every benchmark"
	@go test -run '^$$' -bench . -benchmem ./...

clean:
	@echo "clean: removing bin/ (.tools/ stays; it takes a download to make again)"
	@rm -rf bin

# The version is in the name, so that another one is built when it changes.
$(STATICCHECK): | setup
	@echo "setup: building staticcheck $(LINTER)"
	@GOBIN=$(CURDIR)/.tools/bin go install honnef.co/go/tools/cmd/staticcheck@$(LINTER)
	@mv .tools/bin/staticcheck $@
