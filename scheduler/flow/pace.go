package flow

import (
	"context"
	"sync"
	"time"
)

// Pace keeps callbacks from being begun faster than they are worked on: when so
// many of the last few milliseconds have not ended, more of them would only wait
// for a processor and for connections to be opened, and requests of clients behind
// them. One that takes longer waits for its receiver and no longer counts.
type Pace struct {
	mu       sync.Mutex
	begun    [2]int // not ended, of this span and of the one before
	span     int    // ordinal of the first
	start    time.Time
	slackens chan struct{} // has a token when one has ended
}

const (
	paceSpan = 5 * time.Millisecond
	maxYoung = 256
)

// NewPace makes the pace of a node.
func NewPace() *Pace {
	return &Pace{start: time.Now(), slackens: make(chan struct{}, 1)}
}

// turnOver goes to the present span; p.mu is held.
func (p *Pace) turnOver() {
	now := int(time.Since(p.start) / paceSpan)
	switch now {
	case p.span:
	case p.span + 1:
		p.begun = [2]int{0, p.begun[0]}
	default:
		p.begun = [2]int{}
	}
	p.span = now
}

// Begin counts a callback, and says in which span.
func (p *Pace) Begin() (span int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver()
	p.begun[0]++
	return p.span
}

// End tells of the end of a callback that began in span.
func (p *Pace) End(span int) {
	p.mu.Lock()
	p.turnOver()
	if age := p.span - span; age < len(p.begun) {
		p.begun[age]--
	}
	p.mu.Unlock()
	select {
	case p.slackens <- struct{}{}:
	default:
	}
}

// room is how many more may begin now.
func (p *Pace) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver()
	return maxYoung - p.begun[0] - p.begun[1]
}

// Wait returns how many callbacks may begin, at least one, once there is room for
// a good part of them, or ctx has ended.
func (p *Pace) Wait(ctx context.Context) int {
	for {
		if room := p.room(); room >= maxYoung/4 || ctx.Err() != nil {
			return max(room, 1)
		}
		timer := time.NewTimer(paceSpan)
		select {
		case <-p.slackens:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
