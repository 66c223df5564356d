package kafka

import "context"

// maxLate is how many records that don't wait in timers may be on their way to the
// brokers at once, if each is small.
const maxLate = 4096

// room bounds these records, and with them the memory that they take while the
// brokers don't answer.
type room struct {
	taken chan struct{} // has a token for each share of the room that is taken
	turn  chan struct{} // is held by who takes some: two might wait for each other with half of what each needs
}

const share = 16 << 10 // bytes

func newRoom() *room {
	return &room{taken: make(chan struct{}, maxLate), turn: make(chan struct{}, 1)}
}

// shares is at least 1, so that there are never more than maxLate records.
func shares(size int) int { return min(1+size/share, maxLate) }

// enter waits until there is room for a record of this size, and reports whether ctx
// lasted.
func (r *room) enter(ctx context.Context, size int) bool {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false
	}
	for n := range shares(size) {
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
func (r *room) exit(size int) { r.free(shares(size)) }

func (r *room) free(n int) {
	for range n {
		<-r.taken
	}
}
