package webhook

import (
	"container/list"
	"sync"
	"time"
)

// pool keeps idle connections. pool is safe for concurrent use and blocks on nothing but its mutex. A
// single bound holds for all destinations together. Beyond the bound the longest idle connection is
// closed, whatever its destination.
type pool struct {
	limit int
	life  time.Duration // of an idle connection

	mu     sync.Mutex
	idle   map[string][]*conn // by destination, the longest idle first
	oldest *list.List         // of all *conn in idle, the longest idle first
	timer  *time.Timer        // runs while oldest is not empty
	closed bool
}

func newPool(limit int, life time.Duration) *pool {
	p := &pool{limit: limit, life: life, idle: make(map[string][]*conn), oldest: list.New()}
	p.timer = time.AfterFunc(life, p.expire)
	p.timer.Stop()
	return p
}

// take returns the last used connection to destination, or nil. Rarely used connections therefore reach
// the end of their life.
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

// front is the longest idle connection, or nil.
func (p *pool) front() *conn {
	if first := p.oldest.Front(); first != nil {
		if c, ok := first.Value.(*conn); ok {
			return c
		}
	}
	return nil
}

// removeOldest removes front. The connection that is idle longest is also the first of its destination.
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

// expire closes connections at the end of their life, and sets the timer for the next connection.
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

// close closes the idle connections. From now on put closes every connection.
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
