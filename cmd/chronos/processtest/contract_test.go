package processtest

import (
	"testing"
	"time"

	"chronos/cmd/chronos/processtest/timerservice"
)

// TestTimerServiceAPI: a client that was written from the document of the Timer
// Service API alone works unchanged, and all that goes over the wire is as the description says.
func TestTimerServiceAPI(t *testing.T) {
	t.Parallel()
	node := startNode(t, startRedis(t).url)
	timerservice.Run(t, node.url, described(t))
	if err := node.stop(t, 15*time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}
