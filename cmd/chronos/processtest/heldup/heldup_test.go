package heldup

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestAStopOfTheProcessIsSeen: a watch of this process sees a time in which the process got
// no processor, here because another process stopped it.
func TestAStopOfTheProcessIsSeen(t *testing.T) {
	const stop = 300 * time.Millisecond
	seen := make(chan time.Duration, 100)
	w, err := Start(t.Context(), stop/2, func(from, to time.Time) { seen <- to.Sub(from) })
	if err != nil {
		t.Fatal(err)
	}
	stopSelf(t, stop)
	select {
	case took := <-seen:
		if took < stop*9/10 {
			t.Errorf("a hold-up of %v was seen, want %v", took, stop)
		}
	case <-time.After(10 * time.Second):
		t.Error("no hold-up was seen in 10 s")
	}
	if worst := w.Stop(); worst < stop*9/10-interval {
		t.Errorf("the longest hold-up is %v, want %v", worst, stop)
	}
}

// TestSlack: a usual hold-up allows for nothing, a longer one for its multiple.
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
