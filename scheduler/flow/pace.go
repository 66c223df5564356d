package flow

import (
	"context"
	"sync"
	"time"
)

// Pace keeps callbacks from beginning faster than the node works. When many callbacks of the last
// milliseconds have not ended, more callbacks would only wait for a processor and for new
// connections, and clients' requests would wait behind the callbacks. A callback that takes longer
// waits for the receiver and no longer counts. Pace is safe for concurrent use.
type Pace struct {
	mu       sync.Mutex
	begun    [2]int // callbacks that have not ended, of the present span and of the span before
	span     int    // number of the present span
	start    time.Time
	slackens chan struct{} // has a token when a callback has ended
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

// Begin counts a callback, and returns the present span for End.
func (p *Pace) Begin() (span int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver()
	p.begun[0]++
	return p.span
}

// End counts the end of a callback that began in span.
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

// room is how many more callbacks may begin now.
func (p *Pace) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turnOver()
	return maxYoung - p.begun[0] - p.begun[1]
}

// Wait waits for room for a quarter of maxYoung, or for the end of ctx. Wait returns how many
// callbacks may begin, at least 1.
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
