package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

// TestDependenciesAreNewEnough looks at the linked modules, not at go.mod: the test binary links all modules of the node.
func TestDependenciesAreNewEnough(t *testing.T) {
	t.Parallel()
	floors := map[string]struct{ version, reason string }{
		"github.com/valyala/fasthttp":  {"v1.73.0", "before it, one request could be smuggled into another"},
		"github.com/gofiber/fiber/v2":  {"v2.52.15", "the first that was tried on a fasthttp newer than its own pin"},
		"github.com/redis/go-redis/v9": {"v9.7.3", "before it, a timeout while connecting could hand a command another's answer"},
	}
	linked := linkedVersions(t)
	for module, floor := range floors {
		version, ok := linked[module]
		switch {
		case !ok:
			t.Errorf("%s is not linked: if the node no longer needs it, take it out of this test", module)
		case semver.Compare(version, floor.version) < 0:
			t.Errorf("%s is linked as %s, at least %s is needed (%s): run go get %s@latest and go mod tidy",
				module, version, floor.version, floor.reason, module)
		}
	}
}

// TestNodeKnowsNoKafka: the packages that the node shares with the bridge must not import the bridge's Kafka client.
func TestNodeKnowsNoKafka(t *testing.T) {
	t.Parallel()
	for module := range linkedVersions(t) {
		if strings.HasPrefix(module, "github.com/twmb/") {
			t.Errorf("%s is linked: Kafka is the bridge's alone, so no package that the node shares with it may import that", module)
		}
	}
}

// linkedVersions gives the version of every module in this binary, after replace directives.
func linkedVersions(t *testing.T) map[string]string {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("read build information: there is none")
	}
	linked := make(map[string]string, len(info.Deps))
	for _, module := range info.Deps {
		path := module.Path
		if module.Replace != nil {
			module = module.Replace
		}
		linked[path] = module.Version
	}
	return linked
}
