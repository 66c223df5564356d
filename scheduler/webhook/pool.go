package webhook

import (
	"container/list"
	"sync"
	"time"
)

// pool keeps idle connections. It is safe for concurrent use and blocks on
// nothing but its mutex. One bound holds for all destinations together: beyond
// it the connection that has been idle longest is closed, whosever it is.
type pool struct {
	limit int
	life  time.Duration // of an idle connection

	mu     sync.Mutex
	idle   map[string][]*conn // by destination, the longest idle first
	oldest *list.List         // of all *conn in idle, the longest idle first
	timer  *time.Timer        // runs while oldest holds any
	closed bool
}

func newPool(limit int, life time.Duration) *pool {
	p := &pool{limit: limit, life: life, idle: make(map[string][]*conn), oldest: list.New()}
	p.timer = time.AfterFunc(life, p.expire)
	p.timer.Stop()
	return p
}

// take returns the connection to destination that was used last, nil if there
// is none: those used less often then reach the end of their life.
func (p *pool) take(destination string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	stack := p.idle[destination]
	if len(stack) == 0 {
		return nil
	}
	c := stack[len(stack)-1]
	p.oldest.Remove(c.place)
	stack[len(stack)-1] = nil
	p.keep(destination, stack[:len(stack)-1])
	return c
}

// put keeps c for the next attempt, or closes it.
func (p *pool) put(c *conn) {
	if surplus := p.add(c); surplus != nil {
		surplus.close()
	}
}

func (p *pool) add(c *conn) (surplus *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c
	}
	c.idleSince = time.Now()
	c.place = p.oldest.PushBack(c)
	p.idle[c.destination] = append(p.idle[c.destination], c)
	if p.oldest.Len() == 1 {
		p.timer.Reset(p.life)
	}
	if p.oldest.Len() > p.limit {
		return p.removeOldest()
	}
	return nil
}

// front is the connection that has been idle longest, nil if there is none.
func (p *pool) front() *conn {
	if first := p.oldest.Front(); first != nil {
		if c, ok := first.Value.(*conn); ok {
			return c
		}
	}
	return nil
}

// removeOldest removes front: what is idle longest of all is it also among those
// of its destination, so it is the first there.
func (p *pool) removeOldest() *conn {
	c := p.front()
	p.oldest.Remove(c.place)
	stack := p.idle[c.destination]
	stack[0] = nil
	p.keep(c.destination, stack[1:])
	return c
}

func (p *pool) keep(destination string, stack []*conn) {
	if len(stack) == 0 {
		delete(p.idle, destination)
		return
	}
	p.idle[destination] = stack
}

// expire closes what has been idle for its life, and looks again when the next
// one will have been.
func (p *pool) expire() {
	for _, c := range p.expired() {
		c.close()
	}
}

func (p *pool) expired() (ended []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for c := p.front(); c != nil; c = p.front() {
		if left := p.life - now.Sub(c.idleSince); left > 0 {
			p.timer.Reset(left)
			break
		}
		ended = append(ended, p.removeOldest())
	}
	return ended
}

// close closes what is idle; from now on put closes what it gets.
func (p *pool) close() {
	for _, c := range p.empty() {
		c.close()
	}
}

func (p *pool) empty() (all []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.timer.Stop()
	for p.oldest.Len() > 0 {
		all = append(all, p.removeOldest())
	}
	return all
}
