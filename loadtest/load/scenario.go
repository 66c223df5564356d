package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// scenario is a kind of load.
type scenario struct {
	name string
	// generate makes the load. Figures with an error mean that an answer was wrong.
	generate func(ctx context.Context, o *options, nodeURL, receiverURL string) (summary, error)
	// grace is how long the receiver takes callbacks after the load. The last timer must have fired by then. A callback
	// may also come some time after an answer that said in flight; grace must be longer.
	grace time.Duration
	// own means that the generator is in this program, not in k6.
	own  bool
	rows []row
}

// row is a kind of operation, named op in the figures.
type row struct {
	op, title string
	untold    bool // not made known to the receiver
}

// scenarios returns all scenarios, the default first.
func scenarios() []scenario {
	return []scenario{
		{
			name: "interim", generate: runK6, grace: 3 * time.Second, // the script ends the timers
			rows: []row{
				{op: "create", title: "create (POST)"},
				{op: "refresh", title: "refresh (PUT)"},
				{op: "end", title: "end (DELETE)"},
			},
		},
		{
			name: "registration", generate: runK6, grace: 15 * time.Second, // the longest expiry is 12 s
			rows: []row{
				{op: "register", title: "register (POST)"},
				{op: "repeat", title: "the same again (POST)", untold: true},
				{op: "refresh", title: "register anew (PUT)"},
				{op: "deregister", title: "leave (DELETE)"},
				{op: "nonce", title: "hand out a nonce (PUT)"},
				{op: "use", title: "use a nonce (DELETE)"},
			},
		},
		{
			name: "steady", generate: runSteady, grace: 3 * time.Second, own: true, // runSteady waits until the last timer is due
			rows: []row{{op: "create", title: "create (POST)"}},
		},
	}
}

func scenarioNamed(name string) (scenario, error) {
	for _, s := range scenarios() {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("no scenario is named %q; there are %s", name, scenarioNames())
}

func scenarioNames() string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// generator names the program that makes the load.
func (s *scenario) generator() string {
	if s.own {
		return "generator"
	}
	return "k6"
}
