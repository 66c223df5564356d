package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// TestDenied: the bridge names a missing permission, at once or soon, and says what to do.
func TestDenied(t *testing.T) {
	allow := func(resource kmsg.ACLResourceType, name string, operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: resource, Name: name, Operation: operation, Pattern: kmsg.ACLResourcePatternTypeLiteral, Allow: true}
	}
	var (
		readInput     = allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationRead)
		describeInput = allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationDescribe)
		write         = allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite)
		describe      = allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationDescribe)
		writeInput    = allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationWrite)
		readGroup     = allow(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationRead)
	)
	for name, c := range map[string]struct {
		may    []kfake.ACL
		opens  bool
		want   string
		answer string // of Deliver
	}{
		"the input":                 {[]kfake.ACL{write, readGroup}, false, "topic in: grant Read on topic in to the bridge's user: TOPIC_AUTH", ""},
		"the output":                {[]kfake.ACL{readInput, readGroup}, false, "topic out: grant Write on topic out to the bridge's user: TOPIC_AUTH", ""},
		"to read the input":         {[]kfake.ACL{describeInput, write, readGroup}, true, "grant Read on topic in to the bridge's user: TOPIC_AUTH", ""},
		"to write the output":       {[]kfake.ACL{readInput, describe, readGroup}, true, "grant Write on topic out to the bridge's user: CLUSTER_AUTH", "CLUSTER_AUTH"},
		"to write the output alone": {[]kfake.ACL{readInput, writeInput, describe, readGroup}, true, "grant Write on topic out to the bridge's user: TOPIC_AUTH", "TOPIC_AUTH"},
		"the group":                 {[]kfake.ACL{readInput, write}, true, "grant Read on group g to the bridge's user, or set CHRONOS_KAFKA_GROUP", ""},
		"to do more than it does":   {[]kfake.ACL{readInput, write, readGroup}, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokers := startCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "u", testPassword, c.may...), kfake.SeedTopics(1, "in", "out"))
			book := &testkit.Log{To: t.Output()}
			b, err := Open(t.Context(), Config{
				Connection: Connection{Brokers: brokers, SASL: saslPlain, User: "u", Password: testPassword},
				Input:      "in", Output: "out", Group: "g", MaxPending: 1, Log: newLog(book),
			})
			if (err == nil) != c.opens || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want it to say %q", err, c.want)
			}
			if err != nil {
				return
			}
			defer b.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- b.Run(ctx, newFakeTimers(&audit{acked: make(map[string]bool)})) }()
			m := message.Message{ID: "m", From: message.Origin{Topic: "in"}}
			d := b.Deliver(ctx, dispatch.Delivery{Callback: timer.Callback{Opaque: m.Encode()}, Attempt: 1, Due: m.Deadline})
			if !strings.Contains(d.Reason, c.answer) {
				t.Errorf("a message is not published since %q, want it to say %q", d.Reason, c.answer)
			}
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for c.want != "" && book.Count(c.want) == 0 && ctx.Err() == nil {
				<-tick.C
			}
			if c.want != "" && ctx.Err() != nil {
				t.Errorf("it does not say %q", c.want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
