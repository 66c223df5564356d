package history

import "testing"

func TestAvailable(t *testing.T) {
	requests := func(bad int) func(*book) {
		return func(b *book) {
			for len(b.Operations) < 2000 {
				b.get("k5", 4000, "/5", 1)
			}
			for i := range bad {
				o := &b.Operations[1000+i]
				o.Outcome, o.Status, o.Read = Failed, 503, nil
			}
		}
	}
	answered := func(status, took int) func(*book) {
		return func(b *book) {
			requests(3)(b)
			for i := range 3 {
				o := &b.Operations[1000+i]
				o.Status, o.ReturnNs = status, o.InvokeNs+at(took)
			}
		}
	}
	away := func(copies int, shards ...string) func(*book) {
		return func(b *book) {
			requests(3)(b)
			b.asked("/5").Answer.Copies = copies
			b.Header.Exempt = only(Linearizable)
			for _, shard := range shards {
				b.fault(ShardAway, shard, 4000, 5000)
			}
		}
	}
	changing := func(active int, damage func(*book)) func(*book) {
		return func(b *book) {
			damage(b)
			b.change(3000, 4500, active)
		}
	}
	agreed := func(damage func(*book)) func(*book) {
		return func(b *book) {
			damage(b)
			b.change(1000, 4500, 2)
		}
	}
	runDamages(t, []damage{
		{"2 of 2000", requests(2), nil},
		{"3 of 2000", requests(3), only(Available)},
		{"a node needed a restart", func(b *book) { b.End.Stuck = []string{"n2"} }, only(Available)},
		{"a node was dead", func(b *book) {
			requests(3)(b)
			b.fault(NodeDeath, "n1", 4000, 5000)
		}, nil},
		{"another node was dead", func(b *book) {
			requests(3)(b)
			b.fault(NodeDeath, "n2", 4000, 5000)
		}, only(Available)},
		{"as many shards as copies were away", func(b *book) {
			requests(3)(b)
			b.fault(ShardAway, "a", 4000, 5000)
			b.fault(ShardAway, "b", 4000, 5000)
		}, nil},
		{"fewer were away", func(b *book) {
			requests(3)(b)
			b.fault(ShardAway, "a", 4000, 5000)
			b.fault(ShardAway, "a", 4000, 5000)
		}, only(Available)},
		{"the only copy's", away(1, "a"), nil},
		{"one of two", away(2, "a"), only(Available)},
		{"half of the shards in a change", changing(2, away(2, "a")), nil},
		{"half of the shards, and the nodes have agreed on the change", agreed(away(2, "a")), only(Available)},
		{"half of the shards since before the nodes have agreed", agreed(func(b *book) {
			requests(3)(b)
			b.fault(ShardAway, "a", 2500, 5000)
		}), nil},
		{"less than half of the shards in a change", changing(3, away(2, "a")), only(Available)},
		{"both", away(2, "a", "b"), nil},
		{"both until a while before", func(b *book) {
			requests(3)(b)
			b.fault(ShardAway, "a", 500, 999)
			b.fault(ShardAway, "b", 500, 999)
		}, only(Available)},
		{"both until a moment before", func(b *book) {
			requests(3)(b)
			b.fault(ShardAway, "a", 500, 1000)
			b.fault(ShardAway, "b", 500, 1000)
		}, nil},
		{"a node was dead until a moment before", func(b *book) {
			requests(3)(b)
			b.fault(NodeDeath, "n1", 3000, 3999)
		}, only(Available)},
		{"a timer that is over is not found", answered(404, 4), nil},
		{"told to come back", answered(429, 4), only(Available)},
		{"not heard to the end", answered(408, 4), only(Available)},
		{"within a second", answered(404, 1000), nil},
		{"after more than a second", answered(404, 1001), only(Available)},
	})
}

// A run in which nearly all operations of a kind were refused proves nothing about the kind.
func TestDone(t *testing.T) {
	for _, c := range []struct {
		done int
		want Verdict
	}{{1, VerdictUnknown}, {2, VerdictPassed}} {
		b := clean()
		for i := range 200 {
			if op := b.patch("k5", "/5", "/5", 4000); i >= c.done {
				op.Outcome, op.Status, op.Answer = Failed, 412, nil
			}
		}
		if r := small().Check(b.History); r.Verdict != c.want {
			t.Errorf("%d of 200 patches were done: %s\n%s", c.done, r.Verdict, text(t, &r))
		}
	}
}
