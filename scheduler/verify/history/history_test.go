package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// small are the default limits without the demands on a run's size.
func small() Limits {
	l := DefaultLimits()
	l.MinOperations, l.MinPerKind, l.MinRequests, l.MinPerFault, l.MinInWindows = 0, 0, 0, 0, 0
	l.Agree = 2 * time.Second
	return l
}

func at(ms int) int64 { return int64(ms) * int64(time.Millisecond) }

// book writes a history. Instants are in milliseconds; an operation takes 4 ms.
type book struct{ History }

const opTook = 4

func newBook() *book {
	return &book{History{
		Header: Header{
			Mode: Liveness, Shards: []string{"a", "b", "c"}, RF: 2, SkewMinMs: 250, SkewMaxMs: 2000,
			HoldMs: 3500, LimitMs: 2000, PollMs: 100, Attempts: 5,
		},
		End: &End{AtNs: at(200_000), DumpNs: at(200_000), Drained: true},
	}}
}

// write notes an acknowledged create or replace and returns its index.
func (b *book) write(kind Kind, key, url string, invoke, interval, pops int) int {
	op := Operation{
		Kind: kind, InvokeNs: at(invoke), ReturnNs: at(invoke + opTook), Outcome: OK, Node: "n1", Status: 200,
		Timer:  &Asked{IntervalMs: int64(interval), Pops: pops, URL: url, BodyHash: "body of " + url},
		Answer: &Answer{ID: key + "-2-0123456789abcdef", Key: key, Copies: 2},
	}
	if kind == Replace {
		op.ID, op.Key = op.Answer.ID, key
	}
	b.Operations = append(b.Operations, op)
	return len(b.Operations) - 1
}

func (b *book) delete(key string, invoke int) int {
	b.Operations = append(b.Operations, Operation{
		Kind: Delete, InvokeNs: at(invoke), ReturnNs: at(invoke + opTook), Outcome: OK, Node: "n1", Status: 201,
		ID: key, Key: key, Answer: &Answer{},
	})
	return len(b.Operations) - 1
}

// get notes a GET that read pop seq of the write at url, or 404 if url is empty.
func (b *book) get(key string, invoke int, url string, seq int) int {
	op := Operation{
		Kind: Get, InvokeNs: at(invoke), ReturnNs: at(invoke + opTook), Outcome: OK, Node: "n1", Status: 404, ID: key, Key: key,
	}
	if url != "" {
		op.Status, op.Read = 200, &Read{Seq: seq, State: "waiting", URL: url, BodyHash: "body of " + url}
	}
	b.Operations = append(b.Operations, op)
	return len(b.Operations) - 1
}

// call notes a callback that was answered after a millisecond.
func (b *book) call(key, url string, version, seq, attempt, arrive, status int) int {
	c := Callback{
		ArriveNs: at(arrive), URL: url, BodyHash: "body of " + url, ID: key + "-2-0123456789abcdef", Key: key,
		Version: fmt.Sprintf("%016x", version), Seq: seq, Attempt: attempt, Node: "n1", Status: status, AnsweredNs: at(arrive + 1),
	}
	c.WebhookID = fmt.Sprintf("%s.%s.%d", key, c.Version, seq)
	b.Callbacks = append(b.Callbacks, c)
	return len(b.Callbacks) - 1
}

// fault notes a fault that is repaired at once.
func (b *book) fault(class Class, target string, start, end int) int {
	f := Fault{Kind: string(class), Class: class, StartNs: at(start), EndNs: at(end)}
	if f.ofNode() {
		f.Node = target
	} else {
		f.Shard = target
	}
	b.Faults = append(b.Faults, f)
	return len(b.Faults) - 1
}

// sample notes the counters of n1, as the callbacks so far say.
func (b *book) sample() {
	counters := map[string]int64{CountDelivered: 0, CountFailed: 0, CountGone: 0}
	for i := range b.Callbacks {
		c := &b.Callbacks[i]
		c.limit = b.Header.limit()
		switch {
		case c.succeeded(0):
			counters[CountDelivered]++
		case c.gone(0):
			counters[CountGone]++
		default:
			counters[CountFailed]++
		}
	}
	s := Sample{Node: "n1", Process: 1, Phase: Begin, MemoryBytes: 100 << 20, Goroutines: 100, Descriptors: 100}
	b.Samples = append(b.Samples[:0:0], s)
	s.Phase, s.Counters = Finish, counters
	b.Samples = append(b.Samples, s)
}

func (b *book) copies(key, url string, version, seq, score int, shards ...string) {
	b.Homes = append(b.Homes, Home{Key: key, Shards: shards})
	for rank, shard := range shards {
		b.Copies = append(b.Copies, Copy{
			Shard: shard, Key: key, Version: fmt.Sprintf("%016x", version), Seq: seq, Rank: rank, RF: 2, ScoreMs: int64(score),
			URL: url, BodyHash: "body of " + url,
		})
	}
}

// clean is a history without a fault in which all is well:
//
//	k1 is called once, k2 five times, k3 is replaced (/3 by /3b), k4 deleted, k5 lives on, k6's first attempt fails
func clean() *book {
	b := newBook()
	b.write(Create, "k1", "/1", 100, 1000, 1)
	b.call("k1", "/1", 1, 1, 1, 1106, 200)
	b.get("k1", 500, "/1", 1)
	b.get("k1", 3000, "", 0)
	b.write(Create, "k2", "/2", 200, 1000, 5)
	for n := 1; n <= 5; n++ {
		b.call("k2", "/2", 2, n, 1, 206+1000*n, 200)
	}
	b.get("k2", 2500, "/2", 3)
	b.write(Create, "k3", "/3", 300, 60_000, 1)
	b.write(Replace, "k3", "/3b", 1000, 1000, 1)
	b.get("k3", 1500, "/3b", 1)
	b.call("k3", "/3b", 4, 1, 1, 2006, 200)
	b.write(Create, "k4", "/4", 400, 5000, 1)
	b.delete("k4", 2000)
	b.get("k4", 2500, "", 0)
	b.write(Create, "k5", "/5", 500, 3_600_000, 1)
	b.get("k5", 700, "/5", 1)
	b.copies("k5", "/5", 5, 1, 3_400_500, "b", "a")
	b.write(Create, "k6", "/6", 600, 1000, 1)
	b.call("k6", "/6", 6, 1, 1, 1606, 500)
	b.call("k6", "/6", 6, 1, 2, 2106, 200)
	b.sample()
	return b
}

// asked returns the create or replace that asked for url.
func (b *book) asked(url string) *Operation {
	i := slices.IndexFunc(b.Operations, func(o Operation) bool { return o.Timer != nil && o.Timer.URL == url })
	return &b.Operations[i]
}

// called returns callback i (from 0) of url.
func (b *book) called(url string, i int) *Callback {
	for j := range b.Callbacks {
		if b.Callbacks[j].URL == url {
			if i == 0 {
				return &b.Callbacks[j]
			}
			i--
		}
	}
	panic("no such callback of " + url)
}

// drop removes callback i of url.
func (b *book) drop(url string, i int) {
	c := b.called(url, i)
	b.Callbacks = slices.DeleteFunc(b.Callbacks, func(o Callback) bool { return o == *c })
}

// move puts a callback to another instant.
func (c *Callback) move(arrive int64) {
	if c.AnsweredNs != -1 {
		c.AnsweredNs += arrive - c.ArriveNs
	}
	c.ArriveNs = arrive
}

// failed are the invariants that have violations, without the label-free check.
func failed(r *Report) (numbers []Invariant) {
	for _, f := range r.Findings {
		if f.Total > 0 && f.Invariant != LabelFree {
			numbers = append(numbers, f.Invariant)
		}
	}
	return numbers
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wantOnly checks that exactly the given invariants from 1 to 13 are violated. Without given invariants, the run must
// have passed.
func wantOnly(t *testing.T, h History, l Limits, want ...Invariant) {
	t.Helper()
	r := l.Check(h)
	if diff := cmp.Diff(want, failed(&r)); diff != "" {
		t.Fatalf("violated invariants (-want +got):\n%s\n%s", diff, text(t, &r))
	}
	verdict := VerdictFailed
	if len(want) == 0 {
		verdict = VerdictPassed
	}
	if r.Verdict != verdict {
		t.Fatalf("verdict %s, want %s\n%s", r.Verdict, verdict, text(t, &r))
	}
}

func TestACleanHistoryPasses(t *testing.T) {
	h := clean().History
	wantOnly(t, h, small())
	r := small().Check(h)
	if r.Counts.Obligatory != 8 || r.Counts.Callbacks != 9 || r.Counts.Retries != 1 || r.Counts.LinearKeys != 5 {
		t.Errorf("counts are wrong:\n%s", text(t, &r))
	}
	if r.Counts.WorstLateNs != 2*time.Millisecond || r.Counts.WorstLateQuietNs != 2*time.Millisecond {
		t.Errorf("worst lateness is %s", r.Counts.WorstLateNs)
	}
}
