package bridgetest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// TestRefused: messages that the output refuses go to the dead letters, and hold up no other
// message. Once the topic takes a refused message, an operator can fire the dead letter.
func TestRefused(t *testing.T) {
	testkit.Program(t, "redis-server")
	r := &rig{
		t: t, scenario: &scenario{copies: 1}, broker: broker.Start(t), stores: []*store{newStore(t, "a")},
		input: "in", output: "out", deadLetters: "dead", group: "refused",
	}
	r.broker.CreateTopic("in", 1, map[string]string{"max.message.bytes": "10000000"})
	r.broker.CreateTopic("out", 1, map[string]string{"cleanup.policy": "compact"})
	r.broker.CreateTopic("dead", 1, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.ProducerBatchMaxBytes(10_000_000), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b := r.startBridge()
	out := collect(t, r.broker.Addr(), "out")
	come := func(what string, n int64) {
		testkit.Await(t, 20*time.Second, what, func() bool { _, seen := out.seen(); return seen == n })
	}
	if err := client.ProduceSync(t.Context(), plainMessage("first", nil, time.Now())).FirstErr(); err != nil {
		t.Fatal(err)
	}
	come("the first message comes", 1) // a broker that has just started is slow

	watch, err := heldup.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const good = 500
	deadline := time.Now().Add(2 * time.Second)
	long := make([]byte, 2_000_000)
	_, _ = rand.Read(long)
	all := []*kgo.Record{plainMessage("compressible", make([]byte, 3_000_000), deadline), plainMessage("long", long, deadline)}
	for i := range good {
		all = append(all, plainMessage(fmt.Sprint("good", i), nil, deadline))
		if i%100 == 50 {
			keyless := plainMessage(fmt.Sprint("keyless", i), nil, deadline)
			keyless.Key = nil
			all = append(all, keyless)
		}
	}
	if err := client.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	if from.Before(deadline) {
		from = deadline
	}
	come("all others come", good+2)
	took, heldUp := time.Since(from), watch.Stop().Longest()
	t.Logf("all others had come %v after they were due; the test itself was held up for %v at most", took, heldUp)
	if most := soon + heldup.Slack(heldUp); took > most {
		t.Errorf("all others had come %v after they were due, want %v at most", took, most)
	}
	if out.foreigners("compressible") != 1 {
		t.Error("what the topic takes when it is compressed has not come")
	}
	testkit.Await(t, 40*time.Second, "what is refused is among the dead letters", func() bool {
		_, body, err := b.get("/dead")
		return err == nil && strings.Count(body, "INVALID_RECORD") == good/100 && strings.Count(body, "MESSAGE_TOO_LARGE") == 1
	})
	largest := "10000000"
	if _, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &largest}}, "out"); err != nil {
		t.Fatal(err)
	}
	if status, body, err := b.ask(http.MethodPost, "/dead/fire?reason=MESSAGE_TOO_LARGE"); err != nil || status != http.StatusOK || !strings.Contains(body, `"fired":1,"left":5`) {
		t.Errorf("firing it again: %d, %s, %v", status, body, err)
	}
	testkit.Await(t, 10*time.Second, "what was too long comes", func() bool { return out.foreigners("long") == 1 })
	if _, n := out.seen(); n != good+3 {
		t.Errorf("%d messages have come, want %d", n, good+3)
	}
	r.stopBridge(b)
}

func plainMessage(key string, value []byte, deadline time.Time) *kgo.Record {
	return &kgo.Record{Topic: "in", Key: []byte(key), Value: value, Headers: []kgo.RecordHeader{
		{Key: message.IDHeader, Value: []byte(key)}, {Key: message.DeadlineHeader, Value: []byte(strconv.FormatInt(deadline.UnixMilli(), 10))},
	}}
}
