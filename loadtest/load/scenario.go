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
	// generate makes the load. Its figures may come with an error: an answer was wrong.
	generate func(ctx context.Context, o *options, nodeURL, receiverURL string) (summary, error)
	// grace is how long callbacks are still received after that: until the last timer has fired, and longer than a
	// callback may come after an answer that said in flight.
	grace time.Duration
	// own says that the generator is in this program, not in k6.
	own  bool
	rows []row
}

// row is a kind of operation, named op in the figures.
type row struct {
	op, title string
	untold    bool // the receiver is not told of it
}

// scenarios returns all of them, the default first.
func scenarios() []scenario {
	return []scenario{
		{
			name: "interim", generate: runK6, grace: 3 * time.Second, // its timers are ended
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
			name: "steady", generate: runSteady, grace: 3 * time.Second, own: true, // it waits for the last to be due
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

// generator is what makes the load.
func (s *scenario) generator() string {
	if s.own {
		return "generator"
	}
	return "k6"
}
