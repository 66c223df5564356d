package heldup

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestAStopOfTheProcessIsSeen has another process stop the test. The watch sees when the test got
// no processor.
func TestAStopOfTheProcessIsSeen(t *testing.T) {
	const stop = 300 * time.Millisecond
	w, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * interval)
	before := time.Now()
	stopSelf(t, stop)
	after := time.Now()
	time.Sleep(10 * interval)
	all := w.Stop()
	if longest := all.Longest(); longest < stop-2*interval {
		t.Errorf("the longest hold-up is %v, want %v", longest, stop)
	}
	if during := all.Within(before, after).Longest(); during != all.Longest() {
		t.Errorf("the longest hold-up during the stop is %v, want %v", during, all.Longest())
	}
	if usual := len(all) - len(all.Within(before, after)); usual == 0 {
		t.Error("no probe came before the stop, or after")
	}
}

// TestSlack: a usual hold-up allows for nothing, a longer hold-up for its multiple.
func TestSlack(t *testing.T) {
	if got := Slack(usual); got != 0 {
		t.Errorf("Slack of a usual hold-up is %v", got)
	}
	if got := Slack(100 * time.Millisecond); got != 800*time.Millisecond {
		t.Errorf("Slack of 100 ms is %v, want 800ms", got)
	}
}

// stopSelf has a shell stop this process for d.
func stopSelf(t *testing.T, d time.Duration) {
	t.Helper()
	script := fmt.Sprintf("kill -STOP %[1]d; sleep %[2]f; kill -CONT %[1]d", os.Getpid(), d.Seconds())
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
