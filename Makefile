# `make` alone lists the targets. Nothing here needs root but the installing of redis-server by `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

MODULES      := . loadtest deploy/test deploy/helm/test
GOLANGCI     := go tool -modfile=$(CURDIR)/.ci/tools.mod golangci-lint
PROMTOOL     := go tool -modfile=$(CURDIR)/.ci/tools.mod promtool
GOVULNCHECK  := go tool -modfile=$(CURDIR)/.ci/tools.mod govulncheck
TEST_FLAGS   ?= -timeout 8m $(if $(CI),-count=1)
FUZZTIME     ?= 20s
RATE         ?= 1000

# Packages that test real processes, and what takes long there: make test leaves that to make check.
PROCESSES := chronos/cmd/chronos/processtest
BRIDGES   := chronos/cmd/chronos-bridge/bridgetest
BROWSERS  := chronos/api/ui/uitest
STRANGER  := chronos/cmd/chronos/strangertest
COPIES    := TestCopies/(shards-|shard-|links-|endpoints-|callbacks-)
FAULTS    := TestDashboardOfACluster|TestSentinelFailover|TestClusterFailover|TestLooksAmong|TestSlowRedis|TestStarved|TestAMachineThatBecomesBusy|TestHangingDestinations|TestARepeatedCreateIsCalledOnce|TestAFourthShardMovesItsShare|TestContendedWrites|TestAStalledWrite|TestSlowLinks|TestRacedWrites|TestResync|TestStoppedRedis
UPGRADE   := TestRollingUpgrade
KAFKA     := TestBridges/(bridges-|rebalances|store-stopped)|TestBrokerAway|TestRefused$$
SITES     := TestSitesUnderLoad
CAMPAIGNS := $(COPIES)|$(FAULTS)|$(UPGRADE)|$(SITES)|$(KAFKA)

# What takes longest begins first, three packages at a time: one mostly waits beside two that compute.
MODEL := chronos/scheduler/verify/model chronos/scheduler/verify/sitemodel
LONG  := chronos/cmd/chronos/simtest chronos/redisstore/topology chronos/scheduler chronos/cmd/chronos-bridge chronos/redisstore $(MODEL)

# With the race detector: tests that take minutes with it and whose code other tests run, too, and the store's tests in synctest bubbles.
SLOW_RACES := TestMetricsAreFew|TestOldIDs|TestTagsCountOnce|HourlySweep|TestAdmitIsOncePerKeyWhileItWaits|TestAdmitThroughFaults/[1-9]|TestHangingDestinationsDelayNobodyElse|TestAShardThatWasGivenUp|TestAGivenUpShardJoinsAgain|TestAShardThatLostItsLastSeconds|TestRemember$$|TestIdempotencyKeyMakesOneTimer|TestTombstonesTellBeforeTheyGo|TestShardTurnsSlow/430ms|TestCoordinatorIsKilled/call_1|TestContractMini|TestDifferentialMini|TestDoneRemovesOnlyItsPredecessor|TestALeasedBackupKnows
STORE      := chronos/redisstore chronos/redisstore/shard chronos/redisstore/topology
BUBBLES     = $(shell grep -l testing/synctest redisstore/*_test.go redisstore/shard/*_test.go | xargs grep -ho '^func Test[A-Za-z0-9]*' | cut -c6- | paste -sd'|')

# $(call in-modules,COMMAND) runs a command in the folder of each module.
in-modules = for module in $(MODULES); do (cd $$module && $(1)) || exit 1; done

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the node and the Kafka bridge into .bin
	@if [[ ! -e .bin/chronos || ! -e .bin/chronos-bridge ]]; then \
		echo "compiling (the first time takes one to two minutes on two cores) ..."; \
	fi
	@CGO_ENABLED=0 go build -trimpath -o .bin/ ./cmd/chronos ./cmd/chronos-bridge

.PHONY: run
run: build ## build and start a node; Ctrl-C stops it
	@if [[ -z "$${CHRONOS_REDIS:-}" ]] && ! command -v redis-server >/dev/null; then \
		echo "redis-server is not on PATH: timers are kept in memory only; to keep them, install it (Debian: apt-get install redis-server) or set CHRONOS_REDIS"; \
		export CHRONOS_REDIS=memory; \
	fi; \
	exec .bin/chronos

.PHONY: kafka
kafka: ## start a Kafka broker at 127.0.0.1:9092 to try the bridge with, with topics delay-in, delay-out and delay-dead; keeps nothing
	@go run ./cmd/chronos-bridge/bridgetest/serve

.PHONY: test
test: test-needs deploy ## install what the tests need, run the tests without the race detector and the campaigns: some 7 minutes
	go test -C loadtest $(TEST_FLAGS) ./...
	go test -p 3 $(TEST_FLAGS) $(LONG) $$(go list ./... | grep -vx -e $(PROCESSES) -e $(BRIDGES) -e $(BROWSERS) -e $(STRANGER))
	@# Behind the others, since these have bounds in milliseconds, and several at once, since processes are waited for.
	go test $(TEST_FLAGS) -parallel 4 -skip '$(CAMPAIGNS)' $(PROCESSES) $(BRIDGES) $(BROWSERS)

.PHONY: deploy
deploy: test-needs ## test the files of deploy: build the images in folders, run compose.yaml as processes, check the unit and redis.conf
	@# Go keeps results though the files change, since the files are not in the module of the tests.
	go test -C deploy/test $(TEST_FLAGS) -count=1 ./...

.PHONY: race
race: race-needs ## run the tests with the race detector, but those of processes and browsers and what has one goroutine
	go test -C loadtest -race $(TEST_FLAGS) ./...
	@# On one processor each (-cpu 1): several threads that run timers of one synctest bubble share one context of Go 1.26's race detector, which then crashes. The engine's tests take some 7 minutes so.
	go test -race -cpu 1 -skip '$(SLOW_RACES)' $(TEST_FLAGS) -timeout 20m $(filter-out $(STORE) $(MODEL),$(LONG)) $$(go list ./... | grep -vx -e $(PROCESSES) -e $(BRIDGES) -e $(BROWSERS) -e $(STRANGER) $(addprefix -e ,$(STORE) $(MODEL)))
	go test -race -cpu 1 -run '^($(BUBBLES))$$' $(TEST_FLAGS) $(STORE)
	@# The other tests of the store have bounds in real time, which one processor doesn't keep.
	go test -race -parallel 4 -skip '$(SLOW_RACES)|^($(BUBBLES))$$' $(TEST_FLAGS) $(STORE)

.PHONY: campaigns
campaigns: test-needs ## run the campaigns of faults on real processes in their short form
	@# One after another, since the bounds are promises in milliseconds. The processes are built without the race detector, and so are the tests.
	go test $(TEST_FLAGS) -run '$(COPIES)' $(PROCESSES)
	@# Three at once: four keep two processors busy for minutes, and the bounds are for machines that keep up.
	go test $(TEST_FLAGS) -timeout 12m -parallel 3 -run '$(FAULTS)' $(PROCESSES)
	@# Alone, since the load is twice that of the others.
	go test $(TEST_FLAGS) -run '$(UPGRADE)' $(PROCESSES)
	go test $(TEST_FLAGS) -run '$(SITES)' $(PROCESSES)
	go test $(TEST_FLAGS) -run '$(KAFKA)' $(BRIDGES)

.PHONY: check
check: fmt-check tidy-check vet lint alerts helm test race campaigns stranger ## all that a commit must pass, as .ci/run does: some 30 minutes

.PHONY: fmt-check
fmt-check: ## fail if a file is not as gofmt writes it
	@unformatted=$$(gofmt -s -l .); if [[ -n "$$unformatted" ]]; then \
		printf 'not as gofmt writes it (run make fmt):\n%s\n' "$$unformatted" >&2; exit 1; fi

.PHONY: tidy-check
tidy-check: ## fail if a go.mod or go.sum is not as go mod tidy writes it
	@$(call in-modules,go mod tidy -diff)

.PHONY: vet
vet: ## go vet
	@$(call in-modules,go vet ./...)

.PHONY: lint
lint: ## golangci-lint as .golangci.yaml says, the layers included
	@$(call in-modules,$(GOLANGCI) run)

.PHONY: alerts
alerts: ## check and test the alert rules, and check the configuration of Prometheus
	@$(PROMTOOL) check config deploy/prometheus/prometheus.yaml deploy/prometheus/local.yaml
	@$(PROMTOOL) test rules deploy/prometheus/chronos.test.yaml

.PHONY: stranger
stranger: test-needs ## follow README, docs/tutorial.md and docs/sites.md in a clean clone of the last commit, on their ports: some 3 minutes
	go test $(TEST_FLAGS) -count=1 $(STRANGER)

.PHONY: helm
helm: test-needs ## lint, render and test the Helm chart; the first time compiles helm for some 2 minutes
	@go test -C deploy/helm/test $(TEST_FLAGS) ./...

.PHONY: fmt
fmt: ## format the source
	@gofmt -s -w .

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@.ci/fuzz $(FUZZTIME)

.PHONY: vuln
vuln: ## look for known vulnerabilities in what is called (needs the network)
	@$(call in-modules,$(GOVULNCHECK) ./...)

.PHONY: sim
sim: ## run whole clusters in virtual time under faults: 100 seeds of an hour, or SEED=n alone
	go test -count=1 -timeout 90m ./cmd/chronos/simtest -run '^TestSim$$' -sim.minutes=60 \
		$(if $(SEED),-v -sim.seed=$(SEED),-sim.seeds=100)

.PHONY: faults
faults: test-needs ## kill, stop, wipe and cut off real Redis, Kafka, nodes and bridges under load, with RATE (1000) timers a second: some 50 minutes
	go test -count=1 -v -timeout 60m -run 'TestCopies|TestSlowRedis|TestStarved|TestAMachineThatBecomesBusy|TestHangingDestinations' ./cmd/chronos/processtest -args -faults.full -faults.rate=$(RATE)
	go test -count=1 -v -timeout 30m ./cmd/chronos-bridge/bridgetest -args -faults.full

.PHONY: mutants
mutants: | test-needs ## put bugs into the product, one after another, and say which test notices each: some 10 minutes
	@go run -C loadtest ./mutants -parallel 2

.PHONY: load
load: ## run the load test against nodes of its own and check every callback
	@go run -C loadtest ./load

.PHONY: registration
registration: ## like load, with the registrations and nonces of a SIP registrar
	@go run -C loadtest ./load -scenario registration

.PHONY: lateness
lateness: ## measure how late 1,000 callbacks a second are, each checked
	@go run -C loadtest ./load -scenario steady -rate 1000

.PHONY: bench
bench: | test-needs ## measure chronos, asynq and the machine's limits side by side; writes loadtest/results, and the tables of README and docs
	@go run -C loadtest ./bench

.PHONY: bench-peers
bench-peers: | test-needs ## like bench, with BullMQ (needs npm)
	@go run -C loadtest ./bench -peers

.PHONY: profile
profile: | test-needs ## write summaries of the node's profiles while it creates and fires to loadtest/results
	@go run -C loadtest ./bench -profile

.PHONY: microbench
microbench: ## run the Go benchmarks of the hot path through benchstat; BASE=commit compares with it
	@.ci/microbench $(BASE)

.PHONY: size
size: ## count statements and lines, room by room; BASE=commit compares with it
	@go run -C loadtest ./size $(if $(BASE),-base $(BASE))

.PHONY: clean
clean: ## remove what was built (chronos-data, which holds timers, stays)
	@rm -rf .bin

.PHONY: test-needs
test-needs:
	@.ci/test-needs

.PHONY: race-needs
race-needs: test-needs
	@.ci/test-needs race
