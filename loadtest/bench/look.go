//go:build linux

package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/pending"
	"chronos/lua"
)

const (
	lookRate    = 10 // requests a second
	lookRounds  = 5
	lookPeople  = 5 * time.Second // longest wait for an answer
	slowerThan  = 500             // µs: calls that SLOWLOG notes
	tooSlow     = 2 * time.Millisecond
	slowEntries = 10_000
)

func lookSection() section {
	s := section{
		name: "look",
		once: true,
		table: figure.Table{
			Title: "Lists, load and search beside callbacks",
			Notes: []string{
				"1,000 callbacks a second, alone and beside 10 requests a second to the admin listener: 5 pages of 100 timers, 4 loads to come, 1 search for a text that no timer has. " +
					"Medians of five pairs. Slowest call: of the scripts list, histogram and sample, in Redis' SLOWLOG, which counts the time in which the machine did something else, too.",
			},
			Columns: []figure.Column{
				{Metric: "p999_ms", Title: "p99.9 ms alone"}, {Metric: "look_p999_ms", Title: "beside requests"}, {Metric: "ratio", Title: "ratio"},
				{Metric: "ok", Title: "answered 200, %"}, {Metric: "list_ms", Title: "list, p50 ms"}, {Metric: "load_ms", Title: "load, p50 ms"}, {Metric: "search_ms", Title: "search, p50 ms"},
				{Metric: "slowest_ms", Title: "slowest call, ms"}, {Metric: "slow", Title: "calls over 2 ms, %"}, {Metric: "more_mb", Title: "node, MB more"},
			},
			Ours: pendingName(manyPending),
		},
	}
	for _, n := range []int{manyPending, mostPending} {
		s.subjects = append(s.subjects, subject{name: pendingName(n), measure: lookAmong(n)})
	}
	return s
}

// lookAmong measures callbacks among n pending timers, alone and beside requests. -quick divides n by ten, and leaves
// out the larger n.
func lookAmong(n int) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		if b.quick {
			if n /= 10; n > manyPending/10 {
				return fmt.Errorf("%w with -quick", errAbsent)
			}
		}
		s := &stack{copies: 1}
		defer func() { err = errors.Join(err, s.stop()) }()
		store, err := machine.StartRedis(ctx, b.dir, false)
		if err != nil {
			return err
		}
		s.shards = []*machine.Redis{store}
		shard, err := pending.New(ctx, store.Client, `{"uri":"`+callbackURI(nowhere, 0)+`","opaque":"`+strings.Repeat("x", 100)+`"}`)
		if err != nil {
			return err
		}
		if err := shard.Fill(ctx, n, 48*time.Hour, 24*time.Hour); err != nil {
			return err
		}
		if err := shard.Grow(ctx, n); err != nil {
			return err
		}
		node, err := machine.StartNode(ctx, b.dir, b.node, s.shards)
		if err != nil {
			return err
		}
		s.nodes = []*machine.Node{node}
		return b.lookRounds(ctx, s, add)
	}
}

// lookRounds measures pairs, and adds the medians.
func (b *bench) lookRounds(ctx context.Context, s *stack, add func(string, float64)) error {
	all := map[string][]float64{}
	note := func(metric string, value float64) { all[metric] = append(all[metric], value) }
	if err := s.shards[0].Client.ConfigSet(ctx, "slowlog-log-slower-than", fmt.Sprint(slowerThan)).Err(); err != nil {
		return fmt.Errorf("set up SLOWLOG: %w", err)
	}
	if err := s.shards[0].Client.ConfigSet(ctx, "slowlog-max-len", fmt.Sprint(slowEntries)).Err(); err != nil {
		return fmt.Errorf("set up SLOWLOG: %w", err)
	}
	for range lookRounds {
		alone, err := b.lateAlone(ctx, s)
		if err != nil {
			return err
		}
		before, _, err := machine.Memory(s.nodes[0].PID())
		if err != nil {
			return err
		}
		beside, err := b.lateBeside(ctx, s, note)
		if err != nil {
			return err
		}
		_, peak, err := machine.Memory(s.nodes[0].PID())
		if err != nil {
			return err
		}
		note("p999_ms", alone)
		note("look_p999_ms", beside)
		note("ratio", beside/alone)
		note("more_mb", float64(max(peak-before, 0))/1e6)
	}
	for metric, values := range all {
		if metric == "slowest_ms" {
			add(metric, slices.Max(values))
			continue
		}
		add(metric, figure.Median(values))
	}
	return nil
}

// lateAlone is the p99.9 of the lateness at 1,000 callbacks a second, in ms.
func (b *bench) lateAlone(ctx context.Context, s *stack) (p999 float64, err error) {
	err = late(1000, 0)(ctx, b, s, func(metric string, value float64) {
		if metric == "p999_ms" {
			p999 = value
		}
	})
	return p999, err
}

// lateBeside is lateAlone beside requests, which are noted.
func (b *bench) lateBeside(ctx context.Context, s *stack, note func(string, float64)) (p999 float64, err error) {
	client := s.shards[0].Client
	if err := client.SlowLogReset(ctx).Err(); err != nil {
		return 0, fmt.Errorf("reset SLOWLOG: %w", err)
	}
	if err := client.ConfigResetStat(ctx).Err(); err != nil {
		return 0, fmt.Errorf("reset statistics: %w", err)
	}
	asking, stop := context.WithCancel(ctx)
	var l looks
	done := make(chan struct{})
	go func() { defer close(done); l.run(asking, s.nodes[0]) }()
	p999, err = b.lateAlone(ctx, s)
	stop()
	<-done
	if err != nil {
		return 0, err
	}
	if err := l.noteTo(note); err != nil {
		return 0, err
	}
	return p999, noteSlow(ctx, s.shards[0], l.calls(), note)
}

// looks are requests of people who look at the cluster.
type looks struct {
	mu    sync.Mutex
	took  map[string][]time.Duration // of right answers, by kind
	sent  int
	wrong map[string]int // by answer
}

// kinds are the requests of a second.
func (*looks) kinds() []string {
	return []string{"list", "load", "list", "load", "search", "list", "load", "list", "load", "list"}
}

// calls is about how many script calls the requests took at least: one for each partition.
func (l *looks) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent * 16
}

func (l *looks) run(ctx context.Context, node *machine.Node) {
	l.took, l.wrong = map[string][]time.Duration{}, map[string]int{}
	ticker := time.NewTicker(time.Second / lookRate)
	defer ticker.Stop()
	var people sync.WaitGroup
	defer people.Wait()
	for i := 0; ; i++ {
		kinds := l.kinds()
		people.Go(func() { l.look(context.WithoutCancel(ctx), node, i, kinds[i%len(kinds)]) })
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look sends the i-th request.
func (l *looks) look(ctx context.Context, node *machine.Node, i int, kind string) {
	path := map[string]string{
		"list":   "/timers?limit=100&due-after=" + time.Now().Add(48*time.Hour+time.Duration(i%23)*time.Hour).UTC().Format(time.RFC3339),
		"load":   []string{"/load?step=60s&buckets=60", "/load?step=1h&buckets=168"}[i%2],
		"search": "/timers?text=no-timer-has-this",
	}[kind]
	ctx, cancel := context.WithTimeout(ctx, lookPeople)
	defer cancel()
	begun := time.Now()
	answer := "no answer"
	if response, err := node.Ask(ctx, http.MethodGet, path, ""); err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		if bad := response.Body.Close(); err == nil && bad == nil {
			answer = response.Status
		}
	}
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if answer != "200 OK" {
		l.wrong[answer]++
		return
	}
	l.took[kind] = append(l.took[kind], took)
}

// noteTo notes the answers. No right answer at all is an error.
func (l *looks) noteTo(note func(string, float64)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	right := 0
	for kind, took := range l.took {
		slices.Sort(took)
		note(kind+"_ms", took[len(took)/2].Seconds()*1000)
		right += len(took)
	}
	if right == 0 {
		return fmt.Errorf("%w: none of %d requests was answered: %v", errWrong, l.sent, l.wrong)
	}
	note("ok", 100*float64(right)/float64(l.sent))
	return nil
}

// noteSlow notes the slowest call of the scripts that requests use, and the share of the calls that took long.
func noteSlow(ctx context.Context, store *machine.Redis, calls int, note func(string, float64)) error {
	ours := map[string]bool{}
	for name, source := range lua.Scripts() {
		if slices.Contains([]string{"list", "histogram", "sample"}, name) {
			sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
			ours[hex.EncodeToString(sum[:])] = true
		}
	}
	entries, err := store.Client.SlowLogGet(ctx, slowEntries).Result()
	if err != nil {
		return fmt.Errorf("read SLOWLOG: %w", err)
	}
	slowest, slow := time.Duration(0), 0
	for _, e := range entries {
		if len(e.Args) < 2 || !ours[e.Args[1]] {
			continue
		}
		slowest = max(slowest, e.Duration)
		if e.Duration > tooSlow {
			slow++
		}
	}
	note("slowest_ms", slowest.Seconds()*1000)
	note("slow", 100*float64(slow)/float64(max(calls, 1)))
	return nil
}
