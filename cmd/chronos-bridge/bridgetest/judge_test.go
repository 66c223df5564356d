package bridgetest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// window is a time during which a fault shows.
type window struct{ from, to time.Time }

// open is the end of a fault that lasts.
var open = time.Unix(1<<40, 0)

// verdict is the result of a run.
type verdict struct {
	sent, late int // all messages, and the messages that were late at the time of publishing
	missing    int
	unknown    int // came, but nobody had sent the message
	altered    int
	early      int
	twice      int // records that came once more while a fault shows
	unexcused  int // records that came once more without a fault
	// How late messages came that no fault touched: after the time of a message that waited, and
	// after the acknowledgement of a message that was published late.
	waited, atOnce lateness
	worst          time.Duration // of all messages, with or without a fault
	latest         string        // the latest message without a fault, and when the message came
	examples       []string
	excused        []string // how messages came twice under a fault
}

// lateness is a distribution.
type lateness struct {
	n                      int
	p50, p99, p999, latest time.Duration
}

func (l lateness) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, max %v of %d", l.p50, l.p99, l.p999, l.latest, l.n)
}

func latenessOf(all []time.Duration) lateness {
	if len(all) == 0 {
		return lateness{}
	}
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(int(q*float64(len(all))), len(all)-1)].Round(time.Millisecond)
	}
	return lateness{n: len(all), p50: at(.5), p99: at(.99), p999: at(.999), latest: at(1)}
}

// instant is how exactly a broker and a redis-server tell the same instant. Both use the clock
// of the same machine, in whole milliseconds.
const instant = time.Millisecond

// judge compares the arrivals with the sent messages. A message may come before its deadline by
// as much as advance.
func judge(all []sent, arrivals map[int][]time.Time, windows []window, advance time.Duration) verdict {
	v := verdict{sent: len(all)}
	var waited, atOnce []time.Duration
	var latest time.Duration
	for n, s := range all {
		if s.late {
			v.late++
		}
		came := slices.SortedFunc(slices.Values(arrivals[n]), time.Time.Compare)
		if len(came) == 0 {
			v.missing++
			v.example("message %d, due %s, is missing", n, clock(s.deadline))
			continue
		}
		due := s.deadline.Add(-advance)
		if came[0].Before(due.Add(-instant)) {
			v.early++
			v.example("message %d came %v before its time", n, due.Sub(came[0]))
		}
		v.again(n, came, windows)
		if s.acknowledged.After(due) {
			due = s.acknowledged
		}
		late := max(came[0].Sub(due), 0)
		v.worst = max(v.worst, late.Round(time.Millisecond))
		if touched(windows, due, came[0]) {
			continue
		}
		if late > latest {
			latest, v.latest = late, fmt.Sprintf("message %d came at %s, %v late", n, clock(came[0]), late)
		}
		if s.late {
			atOnce = append(atOnce, late)
		} else {
			waited = append(waited, late)
		}
	}
	for n := range arrivals {
		if n < 0 || n >= len(all) {
			v.unknown++
		}
	}
	v.waited, v.atOnce = latenessOf(waited), latenessOf(atOnce)
	return v
}

// again counts the records of a message after the first.
func (v *verdict) again(n int, came []time.Time, windows []window) {
	for _, at := range came[1:] {
		if touched(windows, at, at) {
			v.twice++
			v.excused = append(v.excused, fmt.Sprintf("message %d at %s and %v later", n, clock(came[0]), at.Sub(came[0])))
			continue
		}
		v.unexcused++
		v.example("message %d came at %s and again at %s", n, clock(came[0]), clock(at))
	}
}

func (v *verdict) example(format string, args ...any) {
	const enough = 20
	if len(v.examples) < enough {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// touched reports whether a fault showed between two instants.
func touched(windows []window, from, to time.Time) bool {
	return slices.ContainsFunc(windows, func(w window) bool { return !to.Before(w.from) && !from.After(w.to) })
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// faults tells in words every breach of the bridge's promises.
func (v *verdict) faults(allowed time.Duration) (all []string) {
	for _, f := range []struct {
		n    int
		what string
	}{
		{v.missing, "missing"}, {v.unknown, "that nobody sent"}, {v.altered, "altered"}, {v.early, "too early"}, {v.unexcused, "twice without a fault"},
	} {
		if f.n > 0 {
			all = append(all, fmt.Sprintf("%d messages %s", f.n, f.what))
		}
	}
	if late := max(v.waited.p999, v.atOnce.p999); late > allowed {
		all = append(all, fmt.Sprintf("one in a thousand came %v late without a fault, want %v", late, allowed))
	}
	if len(all) > 0 {
		all = append(all, v.examples...)
	}
	return all
}

func (v *verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages, %d of them late when they were published; %d came twice under a fault; worst lateness %v\n", v.sent, v.late, v.twice, v.worst)
	if n := len(v.excused); n > 0 {
		fmt.Fprintf(&b, "  twice: %s\n", strings.Join(v.excused[:min(n, 5)], "; "))
	}
	fmt.Fprintf(&b, "  without a fault, after their time:      %v\n", v.waited)
	fmt.Fprintf(&b, "  and late ones, after the input had them: %v\n", v.atOnce)
	fmt.Fprintf(&b, "  the latest of these: %s", v.latest)
	return b.String()
}
