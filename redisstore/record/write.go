package record

import (
	"fmt"
	"strconv"
	"strings"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Encoder encodes writes for lua/merge.lua, one after another from the first. The zero value is ready.
type Encoder struct {
	rest []byte // of the last write's record, behind the head; nil if the last write could not be encoded
}

// Merge returns the script's arguments for the write i, and how many bytes the largest arguments have. A write about
// a state that is over is marked as ended.
func (e *Encoder) Merge(writes []store.Write, i int) (args []any, bytes int, err error) {
	w := &writes[i]
	w.State.Ended = ends(w)
	// Copies of one timer, which stand together, share the rest of the record.
	if e.rest == nil || !sameRest(w, &writes[i-1]) {
		if e.rest, err = appendRest(make([]byte, 0, typicalRecord), w); err == nil {
			err = fits(w)
		}
		if err != nil {
			e.rest = nil
			return nil, 0, err
		}
	}
	head, start := headOf(w)
	keep := any("")
	if w.Keep > 0 {
		keep = WholeMs(w.Keep)
	}
	return []any{string(w.Kind), w.Key, head, e.rest, start, lookOf(w), keep, tokenOf(w)}, len(e.rest), nil
}

// tokenOf is what a write needs of the copy: the token of a leased write; the newest version and revision of a conditional
// write after a "<", and maybe the pop and the attempt; or nothing.
func tokenOf(w *store.Write) any {
	if w.IfNewest == nil {
		return w.Token
	}
	b := w.IfNewest.Rev.Append(append(w.IfNewest.Version.Append([]byte{'<'}), ' '))
	if w.IfNewest.Seq > 0 {
		b = strconv.AppendInt(append(b, ' '), int64(w.IfNewest.Seq), 10)
		b = strconv.AppendInt(append(b, ' '), int64(w.IfNewest.Attempt), 10)
	}
	return b
}

// ends reports whether the write is about a state that is over.
func ends(w *store.Write) bool {
	switch w.Kind {
	case store.WriteGone, store.WriteBury, store.WriteDone:
		return true
	case store.WriteAnew:
		return w.Timer == nil
	case store.WriteLeave, store.WriteDrop:
		return w.State.Ended
	default:
		return false
	}
}

func sameRest(a, b *store.Write) bool {
	return a.Timer != nil && a.Timer == b.Timer && a.Kind == b.Kind && a.BodyHash == b.BodyHash && a.Failure == b.Failure && a.LeftOut == b.LeftOut && a.Site == b.Site && a.State.Rev == b.State.Rev
}

const typicalRecord = 256 // bytes

// headOf is the head of the write's record, and the start of the timer's grid, in ms from the shard's now. The start
// is "" where the head holds the start already: for a client's instant, and for an unchanged grid.
func headOf(w *store.Write) (head []byte, startMs any) {
	head = appendHead(make([]byte, 0, headWidth), w)
	if specifies(w) && (w.State.Rev != 0 || hasMembers(w.Timer)) {
		head[0] = lastFormat
	}
	if w.Timer == nil || w.Kind == store.WriteNext || w.Kind == store.WriteRank {
		return appendStart(head, 0), ""
	}
	interval := WholeMs(w.Timer.Interval)
	if !w.Timer.At.IsZero() {
		return appendStart(head, w.Timer.At.UnixMilli()-interval), ""
	}
	return head, WholeMs(w.DueIn) - int64(w.State.Seq)*interval
}

// lookOf is when to look at a copy, in ms: from now for a retry or an end, from the pop for the outcome next, and
// otherwise from the start of the grid.
func lookOf(w *store.Write) any {
	switch {
	case w.Kind == store.WriteRank && w.State.Attempt > 0 && w.Retry == 0, w.Kind == store.WriteLeave, w.Kind == store.WriteDrop, w.Kind == store.WriteLook:
		return ""
	case w.State.Ended:
		return WholeMs(w.Life)
	case w.Kind == store.WriteAgain, w.Kind == store.WriteHasten, w.State.Attempt > 0 && (w.Kind == store.WriteLive || w.Kind == store.WriteAmend || w.Kind == store.WriteRank):
		return WholeMs(w.Retry)
	case w.Kind == store.WriteNext:
		return w.Offset.Milliseconds()
	}
	return int64(w.State.Seq)*WholeMs(w.Timer.Interval) + w.Offset.Milliseconds()
}

// State is the beginning of a record of the state, and the revision behind a space if there is one.
func State(state timer.State) []byte {
	b := appendState(make([]byte, 0, stateWidth), state)
	if state.Rev != 0 && !state.Ended {
		b = state.Rev.Append(append(b, ' '))
	}
	return b
}

// appendState appends the beginning of a record of the state.
func appendState(b []byte, state timer.State) []byte {
	letter := "1L "
	if state.Ended {
		letter = "1T "
	}
	b = append(state.Version.Append(append(b, letter...)), ' ')
	return appendPadded(append(appendPadded(b, int64(state.Seq), 11), ' '), int64(state.Attempt), 3)
}

// appendPadded appends a number that is not negative with leading zeros.
func appendPadded(b []byte, n int64, width int) []byte {
	at := len(b)
	b = append(b, "00000000000000"[:width]...)
	for i := at + width - 1; i >= at; i-- {
		b[i], n = '0'+byte(n%10), n/10
	}
	return b
}

// appendHead appends the head of a record, up to the start of the grid.
func appendHead(b []byte, w *store.Write) []byte {
	interval := int64(0)
	if w.Timer != nil {
		interval = WholeMs(w.Timer.Interval)
	}
	b = append(appendState(b, w.State), ' ')
	b = append(appendPadded(b, int64(w.Rank), 2), ' ')
	b = append(appendPadded(b, int64(max(w.RF, 1)), 2), ' ')
	return append(appendPadded(b, interval, 13), ' ')
}

func appendStart(b []byte, ms int64) []byte {
	if ms < 0 {
		return appendPadded(append(b, '-'), -ms, 14)
	}
	return appendPadded(append(b, '+'), ms, 14)
}

// appendRest appends the rest of the record behind the head: words, and the specification of a live timer.
func appendRest(b []byte, w *store.Write) ([]byte, error) {
	if !w.Failure.IsZero() {
		b = appendFailure(append(b, " failure="...), w.Failure)
	}
	if w.LeftOut > 0 && !w.State.Ended {
		b = strconv.AppendInt(append(b, " left="...), int64(w.LeftOut), 10)
	}
	if w.State.Rev != 0 && (specifies(w) || w.Kind == store.WriteDone) {
		b = w.State.Rev.Append(append(b, " rev="...))
	}
	if w.Timer != nil && len(w.Timer.Tags) > 0 {
		b = append(append(b, " tags="...), formatTags(w.Timer.Tags)...)
	}
	if w.BodyHash != "" {
		b = append(append(b, " hash="...), Escape(w.BodyHash)...)
	}
	if w.State.Ended && len(w.Away) > 0 { // only an end names the copies that missed the end
		b = appendAway(append(b, " away="...), w.Away)
	}
	if !specifies(w) {
		return b, nil
	}
	if w.Site != "" {
		b = append(append(b, " site="...), Escape(w.Site)...)
	}
	return appendSpecification(append(b, ' '), w.Timer)
}

// specifies reports whether the write's record has a specification.
func specifies(w *store.Write) bool {
	return !w.State.Ended && w.Timer != nil && w.Kind != store.WriteNext && w.Kind != store.WriteRank
}

// appendFailure appends node:at_ms:reason. An @ stands for a time that the shard has to fill in.
func appendFailure(b []byte, f store.Failure) []byte {
	b = append(append(b, f.Node...), ':')
	if f.At.IsZero() {
		b = append(b, '@')
	} else {
		b = strconv.AppendInt(b, f.At.UnixMilli(), 10)
	}
	return append(append(b, ':'), Escape(f.Reason)...)
}

func formatTags(tags []timer.Tag) string {
	parts := make([]string, len(tags))
	for i, t := range tags {
		parts[i] = Escape(t.Type) + "=" + strconv.Itoa(t.Count)
	}
	return strings.Join(parts, ",")
}

// fits checks that a write's numbers fit into a head, as the numbers of every validated timer do.
func fits(w *store.Write) error {
	const digits11, digits13 = int64(1e11), int64(1e13)
	interval := int64(0)
	if w.Timer != nil {
		interval = WholeMs(w.Timer.Interval)
	}
	if int64(w.State.Seq) >= digits11 || w.State.Attempt >= 1000 || w.Rank >= 100 || w.RF >= 100 || interval >= digits13 || min(w.State.Seq, w.State.Attempt, w.Rank, w.RF) < 0 {
		return fmt.Errorf("%w: a number is too large", ErrMalformed)
	}
	return nil
}
