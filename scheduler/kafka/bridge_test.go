package kafka

import (
	"testing"
	"time"

	"chronos/scheduler/kafka/message"
	"chronos/scheduler/timer"
)

// TestNameOf: the log names a message as the message's publisher does.
func TestNameOf(t *testing.T) {
	b := &Bridge{}
	m := message.Message{ID: "order 47/n", Deadline: time.UnixMilli(1)}
	id := timer.ID{Key: message.TimerKey(m.ID), RF: 2}
	if got := b.NameOf(id, timer.Callback{Opaque: m.Encode()}); got != "message order 47/n" {
		t.Error(got)
	}
	if got := b.NameOf(id, timer.Callback{Opaque: "?"}); got != "message of the key "+id.Key {
		t.Error(got)
	}
}
