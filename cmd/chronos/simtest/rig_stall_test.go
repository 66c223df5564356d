package simtest

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
)

func TestLinkStalls(t *testing.T) {
	inBubble(t, "everything arrives afterwards, in order", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		slow := l.slowDown(100 * time.Millisecond)
		_, _ = conn.Write([]byte("on its way"))
		slow()
		l.stall(time.Second)
		wantSay(t, conn, " written meanwhile", os.ErrDeadlineExceeded, answers)
		wantDial(t, l, context.DeadlineExceeded, connects)
		time.Sleep(time.Second - answers - connects - time.Millisecond)
		e.wantHeard(t)
		time.Sleep(time.Millisecond)
		e.wantHeard(t, "on its way written meanwhile")
	})
	inBubble(t, "a short one holds up", func(t *testing.T) {
		l := newLink("n", "s", newEcho().accept)
		conn := mustDial(t, l)
		l.stall(300 * time.Millisecond)
		wantSay(t, conn, "hello", nil, 300*time.Millisecond)
	})
	inBubble(t, "what a client that has gone wrote arrives", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		l.stall(time.Second)
		_, _ = conn.Write([]byte("last words"))
		_ = conn.Close()
		time.Sleep(2 * time.Second)
		e.wantHeard(t, "last words")
	})
}

func TestLinkLagsInOneDirection(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		lift := l.lagBehind(&lag{toNode: true, base: 100 * time.Millisecond, jitter: 50 * time.Millisecond, r: rand.New(rand.NewPCG(1, 1))})
		begun := time.Now()
		_, _ = conn.Write([]byte("hello"))
		e.wantHeard(t, "hello")
		buf := make([]byte, 5)
		if _, err := conn.Read(buf); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 100*time.Millisecond || took > 150*time.Millisecond {
			t.Errorf("the answer took %v", took)
		}
		lift()
		wantSay(t, conn, "again", nil, 0)
	})
}

// TestMomentsAgain: links and shards stall, and nodes are held up, several times a minute; all is over when
// the fault is over.
func TestMomentsAgain(t *testing.T) {
	for _, f := range []fault{
		{kind: linkStall, node: 0, shard: 1, last: time.Minute, pick: 1},
		{kind: shardStall, node: -1, shard: 1, last: time.Minute, pick: 2},
		{kind: nodeBusy, node: 0, shard: -1, last: time.Minute, pick: 3},
	} {
		inBubble(t, string(f.kind), func(t *testing.T) {
			c := clusterOf(t, setting{seed: 1, mode: history.Liveness, nodes: 2, shards: 2, faults: []fault{f}})
			defer c.close()
			c.take(step{fault: 0})
			time.Sleep(time.Minute)
			c.take(step{fault: 0, ends: true})
			h := c.journal.finish(false)
			if f.kind == nodeBusy {
				if paused := c.machines[0].pausing.paused; len(h.Faults) != 1 || paused < 5*time.Second || paused > 40*time.Second {
					t.Errorf("held up for %v of a minute, recorded %+v", paused, h.Faults)
				}
			} else if len(h.Faults) < 5 || len(h.Faults) > 40 {
				t.Errorf("%d stalls in a minute", len(h.Faults))
			}
			for _, each := range h.Faults {
				if long := time.Duration(each.EndNs - each.StartNs); f.kind != nodeBusy && long > stallMost || each.EndNs > int64(c.journal.now()) {
					t.Errorf("recorded %+v", each)
				}
			}
			for _, m := range c.machines {
				c.create(t, m, time.Hour)
			}
		})
	}
}

// TestWholeClusterIsHurt: all nodes are hurt, a fault of each is recorded, and all nodes work afterwards.
func TestWholeClusterIsHurt(t *testing.T) {
	for _, f := range []fault{
		{kind: allSlow, shard: 1, by: 300 * time.Millisecond}, {kind: allHole, shard: 0}, {kind: allCross, shard: -1}, {kind: allPause, shard: -1},
	} {
		inBubble(t, string(f.kind), func(t *testing.T) {
			f.node, f.last = -1, 5*time.Second
			c := clusterOf(t, setting{seed: 1, mode: history.Liveness, nodes: 3, shards: 3, faults: []fault{f}})
			defer c.close()
			c.take(step{fault: 0})
			time.Sleep(f.last)
			c.take(step{fault: 0, ends: true})
			nodes, shards := map[string]bool{}, map[string]bool{}
			for _, each := range c.journal.finish(false).Faults {
				nodes[each.Node], shards[each.Shard] = true, true
			}
			if want := map[kind]int{allCross: 3}[f.kind]; len(nodes) != 3 || want > 0 && len(shards) != want {
				t.Errorf("nodes %v and shards %v were hurt", nodes, shards)
			}
			time.Sleep(5 * time.Second)
			for _, m := range c.machines {
				c.create(t, m, time.Hour)
			}
		})
	}
}

// TestClientGivesUp: the client goes on while its write waits, and the history says that the outcome is
// unknown.
func TestClientGivesUp(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 2, 1)
		defer c.close()
		cl := newClient(c, 0)
		cl.made = []timer.ID{c.create(t, c.machines[0], time.Hour).ID}
		resume := c.shards[0].pause()
		begun := time.Now()
		if cl.answered(t.Context(), c.machines[0], cl.deletion(cl.pick()), 300*time.Millisecond) || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("it went on after %v", time.Since(begun))
		}
		resume()
		cl.left.Wait()
		h := c.journal.finish(false)
		if len(h.Operations) != 1 || h.Operations[0].Outcome != history.Unknown || h.Operations[0].ReturnNs != -1 {
			t.Errorf("recorded %+v", h.Operations)
		}
	})
}

// TestTwoWritersOverlap: the two writes go to two nodes, and are under way together if a shard is slow.
func TestTwoWritersOverlap(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 2, 1)
		defer c.close()
		cl := newClient(c, 0)
		cl.made = []timer.ID{c.create(t, c.machines[0], time.Hour).ID}
		defer c.shards[0].slowDown(160 * time.Millisecond)()
		cl.contend(t.Context())
		all := c.journal.finish(false).Operations
		if len(all) != 2 || all[0].Node == all[1].Node || max(all[0].InvokeNs, all[1].InvokeNs) >= min(all[0].ReturnNs, all[1].ReturnNs) {
			t.Errorf("recorded %+v", all)
		}
	})
}

// TestManyAreCreatedAtOnce: each timer of a batch is an operation of its own.
func TestManyAreCreatedAtOnce(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := quietCluster(t, 1, 1)
		defer c.close()
		cl := newClient(c, 0)
		cl.createMany(t.Context())
		all := c.journal.finish(false).Operations
		if len(all) < 2 || len(cl.made) != len(all) {
			t.Errorf("%d operations, %d timers", len(all), len(cl.made))
		}
		for _, o := range all {
			if o.Outcome != history.OK || o.Answer.Key == "" {
				t.Errorf("recorded %+v", o)
			}
		}
	})
}
