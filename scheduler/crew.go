package scheduler

import (
	"context"
	"sync"

	"chronos/scheduler/shard"
)

// crew is the work on the shards while the engine runs. Every kind of work ends with its own
// context, for all shards, or when the shard is gone.
type crew struct {
	s                       *Scheduler
	watching, polling, work context.Context
	watches, polls, loops   sync.WaitGroup
	leave                   map[*shard.Shard]func() // ends the work on one shard
}

// follow begins the work on shards that come, and ends the work on shards that go, until watching
// ends.
func (c *crew) follow() {
	for {
		changed := c.s.store.Changed()
		all := c.s.shards.Gather()
		for sh, leave := range c.leave {
			if all[sh.Name] != sh {
				leave()
				delete(c.leave, sh)
			}
		}
		for _, sh := range all {
			if c.leave[sh] == nil {
				c.start(sh)
			}
		}
		select {
		case <-changed:
		case <-c.watching.Done():
			return
		}
	}
}

// start begins the work on a shard. When the shard goes, work in hand comes to an end first.
func (c *crew) start(sh *shard.Shard) {
	watching, stopWatching := context.WithCancel(c.watching)
	polling, stopPolling := context.WithCancel(c.polling)
	work, stopWork := context.WithCancel(c.work)
	var observers sync.WaitGroup // the work that may write the shard's gauges
	observe := func(kind *sync.WaitGroup, do func()) {
		observers.Add(1)
		kind.Go(func() {
			defer observers.Done()
			do()
		})
	}
	c.leave[sh] = func() {
		stopWatching()
		stopPolling()
		c.watches.Go(func() {
			observers.Wait()
			sh.ForgetGauges()
			c.s.copies.Forget(sh)
		})
		c.watches.Go(func() {
			defer stopWork()
			c.s.dispatch.Leave(c.work, sh)
		})
	}
	observe(&c.watches, func() { sh.Watch(watching) })
	observe(&c.watches, func() { c.s.tags.Watch(watching, sh) })
	observe(&c.watches, func() { c.s.copies.Sweep(watching, sh) })
	observe(&c.polls, func() { c.s.dispatch.Poll(polling, sh) })
	c.s.dispatch.Work(work, sh, &c.loops)
}
