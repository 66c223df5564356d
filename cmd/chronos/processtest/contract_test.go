package processtest

import (
	"testing"
	"time"

	"chronos/cmd/chronos/processtest/timerservice"
)

// TestTimerServiceAPI: a client that was written from the document of the Timer
// Service API alone works unchanged.
func TestTimerServiceAPI(t *testing.T) {
	node := startNode(t, startRedis(t).url)
	timerservice.Run(t, node.url)
	if err := node.stop(t, 15*time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}
