package simtest

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"chronos/scheduler/verify/history"
)

// fewDuplicates is how many duplicates any run may have. One fault explains as many, since a node has two or
// three callbacks under way.
const fewDuplicates = 3

// campaign sums up the counts of all seeds. A single run is too small for shares of 1 in 1,000. A campaign is
// safe for concurrent use.
type campaign struct {
	mu                              sync.Mutex
	runs                            int
	callbacks, requests, unanswered int
	duplicates                      map[history.Class]int // by the class of the explaining fault
	unansweredIn                    []string              // the runs with unanswered requests, as commands
	operations, done                map[history.Kind]int
}

func newCampaign() *campaign {
	return &campaign{duplicates: map[history.Class]int{}, operations: map[history.Kind]int{}, done: map[history.Kind]int{}}
}

func (c *campaign) add(repeat string, one *history.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.callbacks += one.Callbacks
	c.requests += one.Requests
	if c.unanswered += one.Unanswered; one.Unanswered > 0 {
		c.unansweredIn = append(c.unansweredIn, fmt.Sprintf("%d in %s", one.Unanswered, repeat))
	}
	for class, n := range one.Duplicates {
		c.duplicates[class] += n
	}
	for kind, n := range one.Operations {
		c.operations[kind] += n
		c.done[kind] += one.Done[kind]
	}
}

// judge prints the sums and reports every sum above its limit.
func (c *campaign) judge(t *testing.T) {
	t.Helper()
	t.Logf("%d runs: %d callbacks, duplicates %v; %d requests, %d of them without a good answer in time; done %v of %v",
		c.runs, c.callbacks, c.duplicates, c.requests, c.unanswered, c.done, c.operations)
	if c.runs == 1 {
		return // the verdict has judged the run, and one fault of two shards has many duplicates
	}
	for _, wrong := range c.wrong() {
		t.Error(wrong)
	}
}

// wrong names the sums above the shares that apply to a run of full size.
func (c *campaign) wrong() (wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := history.DefaultLimits()
	others, all := c.duplicates[history.LinkCut]+c.duplicates[history.AnswersLost]+c.duplicates[history.ShardLost], 0
	for class, n := range c.duplicates {
		if class != history.NetSplit {
			all += n
		}
	}
	if n := byChance(l.DuplicatesCut, c.callbacks); all > n {
		wrong = append(wrong, fmt.Sprintf("%d duplicates in all; want %d at most", all, n))
	}
	if n := byChance(l.Duplicates, c.callbacks); all-others > n {
		wrong = append(wrong, fmt.Sprintf("%d duplicates that neither a link nor a loss explains; want %d at most", all-others, n))
	}
	if n := byChance(1-l.Availability, c.requests); c.unanswered > n {
		wrong = append(wrong, fmt.Sprintf("%d requests without a good answer in time; want %d at most\n%s", c.unanswered, n, strings.Join(c.unansweredIn, "\n")))
	}
	for kind, n := range c.operations {
		if done := c.done[kind]; n >= l.MinDoneOf && float64(done) < l.MinDone*float64(n) {
			wrong = append(wrong, fmt.Sprintf("%d of %d operations of kind %s were done", done, n, kind))
		}
	}
	return wrong
}

// byChance is the limit for a count among so many cases. If the true share is exactly the allowed share, one
// campaign in a thousand exceeds the limit.
func byChance(share float64, of int) (most int) {
	mean := share * float64(of)
	if mean > 100 { // the distribution is normal by then
		return int(mean + 3*math.Sqrt(mean))
	}
	one := math.Exp(-mean) // the chance of exactly most
	for above := 1 - one; above > 0.001; above -= one {
		most++
		one *= mean / float64(most)
	}
	return most
}

// TestCampaign: a count allowed to each single run may be too much for all runs together.
func TestCampaign(t *testing.T) {
	for name, d := range map[string]struct {
		counts history.Counts // of each of twenty runs
		red    bool
	}{
		"nothing":                 {history.Counts{}, false},
		"few":                     {history.Counts{Callbacks: 1000, Duplicates: map[history.Class]int{history.NodeDeath: 1}}, false},
		"two in a thousand":       {history.Counts{Callbacks: 1000, Duplicates: map[history.Class]int{history.NodeDeath: 2}}, true},
		"five by links":           {history.Counts{Callbacks: 1000, Duplicates: map[history.Class]int{history.LinkCut: 3, history.AnswersLost: 2}}, false},
		"two by losses":           {history.Counts{Callbacks: 1000, Duplicates: map[history.Class]int{history.ShardLost: 2}}, false},
		"eight by links":          {history.Counts{Callbacks: 1000, Duplicates: map[history.Class]int{history.LinkCut: 8}}, true},
		"forty by a split":        {history.Counts{Callbacks: 1000, Duplicates: map[history.Class]int{history.NetSplit: 40}}, false},
		"one in a thousand":       {history.Counts{Requests: 1000, Unanswered: 1}, false},
		"two of a thousand, each": {history.Counts{Requests: 1000, Unanswered: 2}, true},
		"no delay":                {history.Counts{Operations: map[history.Kind]int{history.Delay: 10}}, true},
		"few delays": {
			history.Counts{Operations: map[history.Kind]int{history.Delay: 100}, Done: map[history.Kind]int{history.Delay: 1}},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCampaign()
			for range 20 {
				c.add("", &d.counts)
			}
			if wrong := c.wrong(); (len(wrong) > 0) != d.red {
				t.Errorf("complaints %q; want any: %v", wrong, d.red)
			}
		})
	}
}
