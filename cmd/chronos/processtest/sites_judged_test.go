package processtest

import (
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
)

// TestSiteJudgeFinds: a run that keeps all promises passes, and the judge names the promise that a run breaks.
func TestSiteJudgeFinds(t *testing.T) {
	t.Parallel()
	second := int64(time.Second)
	put := func(key, url, node string, at, intervalMs int64, pops int, answer history.Answer) history.Operation {
		answer.Key = key
		return history.Operation{
			Kind: history.Replace, Key: key, ID: key, Node: node, InvokeNs: at - second/100, ReturnNs: at, Outcome: history.OK, Status: 200,
			Timer: &history.Asked{IntervalMs: intervalMs, Pops: pops, URL: url}, Answer: &answer,
		}
	}
	call := func(key, url, version string, seq int, at int64) history.Callback {
		return history.Callback{Key: key, URL: url, Version: version, Seq: seq, ArriveNs: at, WebhookID: key + "." + version + "." + string(rune('0'+seq))}
	}
	told, untold, inFlight := history.Answer{}, history.Answer{Untold: 1, InFlight: true}, history.Answer{InFlight: true}
	remove := func(key string, at int64, answer history.Answer) history.Operation {
		return history.Operation{Kind: history.Delete, Key: key, InvokeNs: at - second/100, ReturnNs: at, Outcome: history.OK, Status: 201, Answer: &answer}
	}
	only := func(version string, at int64, status int) history.Operation {
		op := remove("k", at, told)
		op.If, op.Status = version, status
		if status >= 400 {
			op.Outcome, op.Answer = history.Failed, nil
		}
		return op
	}
	versioned := put("k", "/1", "east-n1", second, 2000, 1, history.Answer{Version: "1"})
	split := []siteFault{{from: 30 * time.Second, to: 40 * time.Second}}
	one := put("k", "/1", "east-n1", second, 2000, 1, told)
	late := put("k", "/1", "east-n1", 29*second, 2000, 1, told)
	for name, c := range map[string]struct {
		ops    []history.Operation
		calls  []history.Callback
		faults []siteFault
		want   string
	}{
		"a pop comes":               {ops: []history.Operation{one}, calls: []history.Callback{call("k", "/1", "1", 1, 3*second)}},
		"lost":                      {ops: []history.Operation{one}, want: "nothing lost"},
		"the last pop is lost":      {ops: []history.Operation{put("k", "/1", "east-n1", second, 2000, 2, told)}, calls: []history.Callback{call("k", "/1", "1", 1, 3*second)}, want: "nothing lost"},
		"a pop is left out":         {ops: []history.Operation{put("k", "/1", "east-n1", second, 2000, 2, told)}, calls: []history.Callback{call("k", "/1", "1", 2, 5*second)}, want: "nothing lost"},
		"left out amid a fault":     {ops: []history.Operation{put("k", "/1", "east-n1", 29*second, 2000, 2, told)}, calls: []history.Callback{call("k", "/1", "1", 2, 36*second)}, faults: split},
		"lost amid a fault":         {ops: []history.Operation{late}, faults: split, want: "nothing lost"},
		"early":                     {ops: []history.Operation{one}, calls: []history.Callback{call("k", "/1", "1", 1, 29*second/10)}, want: "never early"},
		"late":                      {ops: []history.Operation{one}, calls: []history.Callback{call("k", "/1", "1", 1, 5*second)}, want: "in time"},
		"late amid a fault":         {ops: []history.Operation{late}, calls: []history.Callback{call("k", "/1", "1", 1, 36*second)}, faults: split},
		"too late amid a fault":     {ops: []history.Operation{late}, calls: []history.Callback{call("k", "/1", "1", 1, 38*second)}, faults: split, want: "in time"},
		"twice":                     {ops: []history.Operation{one}, calls: []history.Callback{call("k", "/1", "1", 1, 3*second), call("k", "/1", "1", 1, 6*second)}, want: "no duplicate"},
		"twice amid a fault":        {ops: []history.Operation{late}, calls: []history.Callback{call("k", "/1", "1", 1, 31*second), call("k", "/1", "1", 1, 35*second)}, faults: split},
		"two ids amid a fault":      {ops: []history.Operation{late}, calls: []history.Callback{call("k", "/1", "1", 1, 31*second), call("k", "/1", "2", 1, 35*second)}, faults: split, want: "one webhook-id"},
		"nobody asked":              {ops: []history.Operation{one}, calls: []history.Callback{call("k", "/1", "1", 1, 3*second), call("k", "/2", "2", 1, 3*second)}, want: "not asked for"},
		"after a delete":            {ops: []history.Operation{one, remove("k", 29*second/10, told)}, calls: []history.Callback{call("k", "/1", "1", 1, 32*second/10)}, want: "no old version"},
		"after a PUT":               {ops: []history.Operation{one, put("k", "/2", "west-n1", 29*second/10, 3600000, 1, told)}, calls: []history.Callback{call("k", "/1", "1", 1, 32*second/10)}, want: "no old version"},
		"in flight":                 {ops: []history.Operation{one, remove("k", 29*second/10, inFlight)}, calls: []history.Callback{call("k", "/1", "1", 1, 32*second/10)}},
		"too long in flight":        {ops: []history.Operation{one, remove("k", 29*second/10, inFlight)}, calls: []history.Callback{call("k", "/1", "1", 1, 6*second)}, want: "no old version"},
		"home was not told":         {ops: []history.Operation{late, remove("k", 302*second/10, untold)}, calls: []history.Callback{call("k", "/1", "1", 1, 36*second)}, faults: split},
		"home heard long ago":       {ops: []history.Operation{late, remove("k", 302*second/10, untold)}, calls: []history.Callback{call("k", "/1", "1", 1, 44*second)}, faults: split, want: "no old version"},
		"only a wiped site had it":  {ops: []history.Operation{put("k", "/1", "east-n1", 29*second, 2000, 1, untold)}, faults: []siteFault{{site: "east", wiped: true, from: 30 * time.Second, to: 31 * time.Second}}},
		"another site was wiped":    {ops: []history.Operation{put("k", "/1", "west-n1", 29*second, 2000, 1, untold)}, faults: []siteFault{{site: "east", wiped: true, from: 30 * time.Second, to: 31 * time.Second}}, want: "nothing lost"},
		"both sites had it":         {ops: []history.Operation{put("k", "/1", "east-n1", 29*second, 2000, 1, told)}, faults: []siteFault{{site: "east", wiped: true, from: 30 * time.Second, to: 31 * time.Second}}, want: "nothing lost"},
		"the end ends obligations":  {ops: []history.Operation{put("k", "/1", "east-n1", second, 3600000, 1, told)}},
		"a condition is met":        {ops: []history.Operation{versioned, only("1", 2*second, 201)}},
		"a met condition is denied": {ops: []history.Operation{versioned, only("1", 2*second, 412)}, calls: []history.Callback{call("k", "/1", "1", 1, 3*second)}, want: "conditions"},
		"the version has popped":    {ops: []history.Operation{versioned, only("1", 32*second/10, 412)}, calls: []history.Callback{call("k", "/1", "1", 1, 3*second)}},
		"another version is there":  {ops: []history.Operation{versioned, put("k", "/2", "east-n1", 19*second/10, 3600000, 1, told), only("1", 2*second, 412)}},
		"a delete ends obligations": {ops: []history.Operation{one, remove("k", 2*second, told)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &siteJudge{h: &history.History{Header: history.Header{RF: 2}, Operations: c.ops, Callbacks: c.calls, End: &history.End{AtNs: 60 * second}}, faults: c.faults}
			judgeSites(j)
			if c.want == "" && len(j.violations) > 0 || c.want != "" && (len(j.violations) != 1 || !strings.HasPrefix(j.violations[0], c.want)) {
				t.Errorf("violations %q, want %q", j.violations, c.want)
			}
		})
	}
}
