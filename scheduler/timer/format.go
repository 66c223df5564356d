package timer

// The formats in which timers are stored. A node leaves a timer in a later format alone: without the members that the node
// does not know, a callback would be wrong.
const (
	FirstFormat = 1
	LastFormat  = 2
)

// Format is the first format that has all members of the timer. A revision, which is what a PATCH makes, has LastFormat.
func (t *Timer) Format() int {
	if t.ExpiresAfter != 0 || !t.Callback.Plain() {
		return LastFormat
	}
	return FirstFormat
}
