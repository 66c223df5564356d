//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/role"
	"chronos/loadtest/child"
	"chronos/scheduler/awake"
)

// setup is what a measurement of chronos runs on. All redis-servers are on this one machine.
type setup struct {
	nodes, shards int
	copies        int  // of each timer
	bare          bool // without append-only files
}

// with is a setup of one node.
func with(shards, copies int) setup { return setup{nodes: 1, shards: shards, copies: copies} }

func twoCopies() setup { return with(2, 2) }

func oneOfTwo() setup { return with(2, 1) }

func oneCopy() setup { return with(1, 1) }

func withoutLog() setup { return setup{nodes: 1, shards: 1, copies: 1, bare: true} }

const (
	oursTwo    = "chronos, two copies on two Redis"
	oursSpread = "chronos, one copy on two Redis"
	oursOne    = "chronos, one copy"
	oursBare   = "chronos, one copy, no AOF"
)

// stack is a number of nodes on a number of shards, all empty at first.
type stack struct {
	nodes  []*machine.Node
	shards []*machine.Redis
	copies int // of each timer
}

func (b *bench) start(ctx context.Context, on setup, more ...string) (*stack, error) {
	s := &stack{copies: on.copies}
	for range on.shards {
		r, err := machine.StartRedis(ctx, b.dir, !on.bare)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.shards = append(s.shards, r)
	}
	for range on.nodes {
		n, err := machine.StartNode(ctx, b.dir, b.node, s.shards, more...)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

func (s *stack) stop() (err error) {
	for _, n := range s.nodes {
		err = errors.Join(err, n.Stop())
	}
	for _, r := range s.shards {
		err = errors.Join(err, r.Stop())
	}
	return err
}

func (s *stack) addresses() (list []string) {
	for _, n := range s.nodes {
		list = append(list, n.Address)
	}
	return list
}

// timer is a timer in JSON with as many copies as the stack's timers have.
func (s *stack) timer(timing, uri string) string { return copied(timing, uri, s.copies) }

// costs measures the processor time of the nodes and of the redis-servers.
func (s *stack) costs() *costs {
	c := &costs{}
	for _, n := range s.nodes {
		c.watch(nodeCost, n.PID())
	}
	for _, r := range s.shards {
		c.watch(redisCost, r.PID())
	}
	return c
}

// role starts a role as a process. The role runs until the caller stops the process.
func (b *bench) role(ctx context.Context, args ...string) (*child.Process, error) {
	return child.Start(ctx, args[0], b.dir, nil, b.self, append([]string{"role"}, args...)...)
}

// job runs a program to the end and returns the result that the program prints. A failure of the
// program is an error.
func (b *bench) job(ctx context.Context, name string, args ...string) (role.Took, error) {
	var took role.Took
	p, err := child.Start(ctx, name, b.dir, nil, args[0], args[1:]...)
	if err != nil {
		return took, err
	}
	err = p.Wait(ctx)
	if bad := p.Stop(); err != nil || bad != nil {
		return took, fmt.Errorf("%w\n%s", errors.Join(err, bad), p.Tail())
	}
	took.CPU = p.CPU()
	output, err := p.Output()
	if err != nil {
		return took, err
	}
	if err := json.Unmarshal(output, &took); err != nil {
		return took, fmt.Errorf("read what %s says: %w", name, err)
	}
	if took.Failed > 0 {
		return took, fmt.Errorf("%s failed %d times: %s", name, took.Failed, took.Why)
	}
	return took, nil
}

// sink is the process that receives callbacks.
type sink struct {
	*child.Process
	fast, slow string // URLs
}

func (b *bench) startSink(ctx context.Context) (*sink, error) {
	fast, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	slow, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := b.role(ctx, "sink", "-listen", fast, "-slow", slow)
	if err != nil {
		return nil, err
	}
	s := &sink{Process: p, fast: "http://" + fast, slow: "http://" + slow}
	if err := p.Until(ctx, child.Answers(s.fast+"/control/count")); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return s, nil
}

// expect begins a round of n callbacks.
func (s *sink) expect(ctx context.Context, n int) error {
	return s.ask(ctx, "/control/expect?n="+strconv.Itoa(n), nil)
}

func (s *sink) report(ctx context.Context) (role.Report, error) {
	var report role.Report
	err := s.ask(ctx, "/control/report", &report)
	return report, err
}

const (
	lookAgain = 50 * time.Millisecond
	straggle  = 300 * time.Millisecond // wait for surplus callbacks
	quiet     = 15 * time.Second       // after so long without a callback, the rest is missing
)

// await waits until n callbacks have come, and a bit longer. After due, await gives up once no
// callback has come for the time quiet.
func (s *sink) await(ctx context.Context, n int, due time.Time) (role.Report, error) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	end, before := time.Now().Add(quiet), 0
	if due := due.Add(quiet); due.After(end) {
		end = due
	}
	for time.Now().Before(end) {
		count := 0
		if err := s.ask(ctx, "/control/count", &count); err != nil {
			return role.Report{}, err
		}
		if count >= n {
			break
		}
		if count > before {
			before = count
			if now := time.Now(); now.After(due) {
				end = now.Add(quiet)
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return role.Report{}, fmt.Errorf("wait for callbacks: %w", ctx.Err())
		}
	}
	if err := pause(ctx, straggle); err != nil {
		return role.Report{}, err
	}
	return s.report(ctx)
}

func (s *sink) ask(ctx context.Context, path string, answer any) error {
	body, err := child.Ask(ctx, http.MethodGet, s.fast+path)
	if err != nil {
		return fmt.Errorf("ask receiver: %w", err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("ask receiver: %w", err)
	}
	return nil
}

// pause waits for the time d. If ctx ends earlier, pause returns an error.
func pause(ctx context.Context, d time.Duration) error {
	if !awake.Sleep(ctx, d) {
		return fmt.Errorf("wait: %w", ctx.Err())
	}
	return nil
}
