package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
)

// move has the next pop of a timer come now, or later, in one round of four.
func (cl *client) move(ctx context.Context) {
	switch draw := cl.moves.IntN(100); {
	case draw < 8 && len(cl.made) > 0:
		cl.fire(ctx)
	case draw < 14, draw < 24 && len(cl.later) == 0:
		cl.createForDelays(ctx)
	case draw < 24:
		cl.delay(ctx)
	}
}

// fire fires one of the last few timers.
func (cl *client) fire(ctx context.Context) {
	const few = 8
	id := cl.made[len(cl.made)-1-cl.moves.IntN(min(few, len(cl.made)))]
	cond, asks := cl.oneOf(id)
	cl.write(ctx, request{
		Operation: history.Operation{Kind: history.Fire, ID: id.String(), Key: id.Key, If: asks}, id: id,
		do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
			return s.Fire(ctx, id, cond)
		},
	})
}

// createForDelays makes a timer that calls a receiver which answers at once. Only delays change the timer, since
// the judge takes the pops of all versions together.
func (cl *client) createForDelays(ctx context.Context) {
	cl.writes++
	unique := fmt.Sprintf("%d-%d", cl.number, cl.writes)
	t := timer.Timer{
		ReplicationFactor: 1 + cl.moves.IntN(3), Interval: cl.within(2*time.Second, 15*time.Second),
		Callback: timer.Callback{URI: urlOf(promptly, unique), Opaque: "body of " + unique}, Tags: tagsOf(cl.writes),
	}
	switch cl.moves.IntN(3) {
	case 0:
		t.RepeatFor = t.Interval * time.Duration(2+cl.moves.IntN(3))
		if cl.c.setting.instants && cl.writes%2 == 0 {
			t.At = time.Now().Add(t.Interval / 2).Truncate(time.Millisecond)
		}
	case 1:
		if cl.c.setting.instants {
			t.At, t.Interval = time.Now().Add(t.Interval).Truncate(time.Millisecond), 0
		}
	}
	receipt, ok := cl.write(ctx, request{
		Operation: history.Operation{Kind: history.Create, Timer: cl.asked(t)},
		do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
			return s.Create(ctx, t)
		},
	})
	if ok {
		cl.later = append(cl.later, receipt.ID)
	}
}

// delay delays one of the last few timers that were made for delays.
func (cl *client) delay(ctx context.Context) {
	const few = 3
	id := cl.later[len(cl.later)-1-cl.moves.IntN(min(few, len(cl.later)))]
	cond, asks := cl.oneOf(id)
	by := cl.within(time.Millisecond, 6*time.Second)
	cl.write(ctx, request{
		Operation: history.Operation{Kind: history.Delay, ID: id.String(), Key: id.Key, If: asks, ByMs: by.Milliseconds()}, id: id,
		do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
			return s.Delay(ctx, id, cond, by)
		},
	})
}

// oneOf is the condition of one fire or delay in five: the version that the client heard of last.
func (cl *client) oneOf(id timer.ID) (cond timer.Condition, asks string) {
	if version := cl.version(id); version != 0 && cl.moves.IntN(5) == 0 {
		return timer.Condition{OneOf: []timer.Version{version}}, version.String()
	}
	return timer.Condition{}, ""
}

func (cl *client) within(least, most time.Duration) time.Duration {
	return between(cl.moves, least, most)
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(r.Int64N(int64(most-least)))).Truncate(time.Millisecond)
}
