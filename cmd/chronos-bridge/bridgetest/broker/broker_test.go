package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/verify/testkit"
)

const (
	records = 1000
	within  = 30 * time.Second // for every step; on an idle machine all steps take some seconds
)

// TestBroker: a killed broker keeps all acknowledged records, and a stopped broker answers
// nothing until Continue.
func TestBroker(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	b := Start(t)
	t.Logf("start: %v", time.Since(begun).Round(time.Millisecond))
	b.CreateTopic("plain", 3, nil)
	b.CreateTopic("stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})

	want := make([]string, records)
	sent := make([]*kgo.Record, records)
	for i := range want {
		want[i] = fmt.Sprintf("value-%04d", i)
		sent[i] = &kgo.Record{Topic: "plain", Key: []byte(strconv.Itoa(i)), Value: []byte(want[i])}
	}
	if err := produce(t, b, within, sent...); err != nil {
		t.Fatal(err)
	}
	consumed(t, b, "plain", want)

	t.Run("stamped", func(t *testing.T) {
		old := &kgo.Record{Topic: "stamped", Value: []byte("old"), Timestamp: time.UnixMilli(0)}
		if err := produce(t, b, within, old); err != nil {
			t.Fatal(err)
		}
		got := consumed(t, b, "stamped", []string{"old"})[0]
		if age := time.Since(got.Timestamp); got.Attrs.TimestampType() != 1 || age < 0 || age > within {
			t.Errorf("stamped %v, type %d; want the broker's time", got.Timestamp, got.Attrs.TimestampType())
		}
	})
	t.Run("kcat", func(t *testing.T) { speaksKcat(t, b) })

	b.Kill()
	if err := produce(t, b, time.Second, &kgo.Record{Topic: "plain"}); err == nil {
		t.Error("a killed broker has acknowledged a record")
	}
	begun = time.Now()
	b.Restart()
	t.Logf("restart: %v", time.Since(begun).Round(time.Millisecond))
	consumed(t, b, "plain", want)

	b.Stop()
	err := produce(t, b, time.Second, &kgo.Record{Topic: "stamped", Value: []byte("lost")})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped broker: %v, want no answer", err)
	}
	b.Continue()
	begun = time.Now()
	if err := produce(t, b, within, &kgo.Record{Topic: "stamped", Value: []byte("new")}); err != nil {
		t.Errorf("after the stop: %v", err)
	}
	t.Logf("first acknowledgement after the stop: %v", time.Since(begun).Round(time.Millisecond))
}

// speaksKcat writes and reads with kcat. The library of kcat, librdkafka, shares no code with
// the client here.
func speaksKcat(t *testing.T, b *Broker) {
	testkit.Program(t, "kcat")
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	b.CreateTopic("kcat", 1, nil)
	var stderr bytes.Buffer
	writer := exec.CommandContext(ctx, "kcat", "-b", b.Addr(), "-P", "-t", "kcat", "-K:")
	writer.Stdin, writer.Stderr = strings.NewReader("a:one\nb:two\n"), &stderr
	if err := writer.Run(); err != nil {
		t.Fatalf("kcat -P: %v\n%s", err, &stderr)
	}
	consumed(t, b, "kcat", []string{"one", "two"})
	reader := exec.CommandContext(ctx, "kcat", "-b", b.Addr(), "-C", "-t", "kcat", "-o", "beginning", "-e", "-K:")
	reader.Stderr = &stderr
	out, err := reader.Output()
	if err != nil || string(out) != "a:one\nb:two\n" {
		t.Errorf("kcat -C: %q, %v\n%s", out, err, &stderr)
	}
}

// produce returns when all records are acknowledged, or with an error after the limit.
func produce(t *testing.T, b *Broker, limit time.Duration, rs ...*kgo.Record) error {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return client.ProduceSync(ctx, rs...).FirstErr()
}

// consumed reads a topic from the beginning, until as many records have come as are wanted.
// The records must have the wanted values, in any order.
func consumed(t *testing.T, b *Broker, topic string, want []string) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var got []*kgo.Record
	for len(got) < len(want) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%s: %v after %d of %d records", topic, err, len(got), len(want))
		}
		got = append(got, fetches.Records()...)
	}
	values := make([]string, len(got))
	for i, r := range got {
		values[i] = string(r.Value)
	}
	slices.Sort(values)
	if diff := cmp.Diff(want, values); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", topic, diff)
	}
	return got
}
