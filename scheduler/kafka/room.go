package kafka

import (
	"context"
	"sync"

	"chronos/scheduler/replica"
)

// maxLate is how many records that don't wait in timers may be on their way to the
// brokers at once, if all are small.
const maxLate = 4096

// atStore is how many shares go to the store at once: 8 MiB. A redis-server needs a fifth of a second
// for 8 MiB, and may keep silent for half a second. A longer batch goes alone.
const atStore = 512

// room bounds how much is under way somewhere. With maxLate shares a room bounds the memory of records
// while the brokers don't answer.
type room struct {
	taken chan struct{} // has a token for every taken share of the room
	turn  chan struct{} // held while shares are taken: two takers could wait for one another, with half of the needed shares in hand
}

const share = 16 << 10 // bytes

func newRoom(shares int) *room {
	return &room{taken: make(chan struct{}, shares), turn: make(chan struct{}, 1)}
}

// shares is at least 1, so that the room never has more records than shares.
func (r *room) shares(size int) int { return min(1+size/share, cap(r.taken)) }

// enter waits until the room has space for a record of this size, and reports whether ctx lasted.
func (r *room) enter(ctx context.Context, size int) bool {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false
	}
	for n := range r.shares(size) {
		select {
		case r.taken <- struct{}{}:
		case <-ctx.Done():
			r.free(n)
			return false
		}
	}
	return true
}

// exit never blocks.
func (r *room) exit(size int) { r.free(r.shares(size)) }

func (r *room) free(n int) {
	for range n {
		<-r.taken
	}
}

// lateIDs are the ids of late messages on their way to the brokers, from all partitions. Another
// message with the same id is a duplicate, although the timers don't know of the first message. There
// are at most as many ids as records in the room and partitions that wait for the room.
type lateIDs struct {
	mu      sync.Mutex
	origins map[string]string // by key
}

func newLateIDs() *lateIDs { return &lateIDs{origins: make(map[string]string)} }

// taken reports whether another message has the id.
func (l *lateIDs) taken(a *replica.Admission) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.another(a)
}

// take takes the id until it is freed, and reports false if another message has it.
func (l *lateIDs) take(a *replica.Admission) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.another(a) {
		return false
	}
	l.origins[a.Key] = a.Origin
	return true
}

// another is whether another message has the id; l.mu is held. The same record may come again, when its
// partition has gone and come.
func (l *lateIDs) another(a *replica.Admission) bool {
	origin, ok := l.origins[a.Key]
	return ok && origin != a.Origin
}

func (l *lateIDs) free(a *replica.Admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.origins[a.Key] == a.Origin {
		delete(l.origins, a.Key)
	}
}
