package broker

import (
	"fmt"
	"strings"
	"testing"
)

// judged is a test under test: judged notes a skip or a failure, and then ends only the call
// of need.
type judged struct {
	testing.TB
	skipped, failed string
}

func (*judged) Helper() {}

func (j *judged) Skip(args ...any) { j.skipped = fmt.Sprint(args...) }

func (j *judged) Fatal(args ...any) { j.failed = fmt.Sprint(args...); panic(j) }

// need calls Need, and returns even if Need fails the test.
func (j *judged) need() {
	defer func() { _ = recover() }()
	Need(j)
}

// TestNeed: without java a test is skipped and names the packages to install; in CI the test
// fails.
func TestNeed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if reason, ok := Available(); ok || reason != "java is not on PATH" {
		t.Errorf("Available: %q, %v", reason, ok)
	}
	var outside, inside judged
	t.Setenv("CI", "")
	outside.need()
	if !strings.HasPrefix(outside.skipped, "no Kafka broker: java") || !strings.Contains(outside.skipped, "install") || outside.failed != "" {
		t.Errorf("without CI: skipped with %q, failed with %q", outside.skipped, outside.failed)
	}
	t.Setenv("CI", "true")
	inside.need()
	if inside.skipped != "" || !strings.HasPrefix(inside.failed, "no Kafka broker: java") {
		t.Errorf("in CI: skipped with %q, failed with %q", inside.skipped, inside.failed)
	}
}
