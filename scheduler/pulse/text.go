package pulse

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxText is the greatest length of a node's text, in bytes, with the time that the shard adds.
const MaxText = 4096

// maxTold is how many destinations a node tells of.
const maxTold = 20

// Identity is what a node tells of itself that stays the same.
type Identity struct {
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Format  int       `json:"format"` // the last format of records that the node knows
	Started time.Time `json:"-"`
	Public  string    `json:"public"`
	Admin   string    `json:"admin"`
}

// Node is what a node tells of itself. Durations are in ms.
type Node struct {
	AtMs int64 `json:"at_ms"` // by the shard's clock, which the shard adds
	Identity
	StartedMs    int64         `json:"started_ms"` // by the node's clock
	Timers       Timers        `json:"timers"`
	LateMs       LateMs        `json:"late_ms"`
	Destinations []Destination `json:"destinations"`
}

// Timers are callbacks in a second, and callbacks under way.
type Timers struct {
	Fired    float64 `json:"fired"`
	Failed   float64 `json:"failed"`
	InFlight int     `json:"in_flight"`
}

// LateMs are quantiles of how late callbacks were.
type LateMs struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Destination is a destination as a node tells of it.
type Destination struct {
	Destination string  `json:"destination"`
	Fired       float64 `json:"fired"`
	Failed      float64 `json:"failed"`
	InFlight    int     `json:"in_flight"`
	Waiting     int     `json:"waiting"`
	P99Ms       float64 `json:"p99_ms"`
	LastStatus  string  `json:"last_status"`
}

// Load is what a node has in hand for a destination.
type Load struct{ InFlight, Waiting int }

// Text is a node's text, without the time that the shard adds: an object without its first brace, as the script
// beat.lua completes it. The text has the busiest destinations for which MaxText has room.
func Text(own Identity, f *Figures, inFlight int, inHand map[string]Load) (string, error) {
	const maxName = 64
	own.Host, own.Version = cut(own.Host, maxName), cut(own.Version, maxName)
	own.Public, own.Admin = cut(own.Public, maxName), cut(own.Admin, maxName)
	n := Node{
		Identity: own, StartedMs: own.Started.UnixMilli(),
		Timers: Timers{tenths(f.Fired), tenths(f.Failed), inFlight},
		LateMs: LateMs{msOf(f.Late.P50), msOf(f.Late.P99), msOf(f.Late.P999), msOf(f.Late.Max)},
	}
	all := told(f, inHand)
	for {
		n.Destinations = all
		text, err := json.Marshal(n)
		if err != nil {
			return "", err
		}
		_, rest, _ := strings.Cut(string(text), ",") // the time that is not known yet
		const room = len(`{"at_ms":1795221099878,`)
		if len(rest)+room <= MaxText || len(all) == 0 {
			return rest, nil
		}
		all = all[:len(all)-1]
	}
}

// told are the destinations of a node, the busiest first: those with callbacks, and those with claims in hand.
func told(f *Figures, inHand map[string]Load) []Destination {
	all := make([]Destination, 0, len(f.Destinations))
	seen := make(map[string]bool, len(f.Destinations))
	for i := range f.Destinations {
		b := &f.Destinations[i]
		seen[b.Destination] = true
		all = append(all, Destination{
			Destination: b.Destination, Fired: tenths(b.Fired), Failed: tenths(b.Failed), P99Ms: msOf(b.P99), LastStatus: cut(b.Last, 40),
			InFlight: inHand[b.Destination].InFlight, Waiting: inHand[b.Destination].Waiting,
		})
	}
	for name, load := range inHand {
		if !seen[name] {
			all = append(all, Destination{Destination: name, InFlight: load.InFlight, Waiting: load.Waiting})
		}
	}
	busy := func(d *Destination) float64 { return d.Fired + d.Failed + float64(d.InFlight+d.Waiting) }
	slices.SortFunc(all, func(a, b Destination) int {
		return cmp.Or(cmp.Compare(busy(&b), busy(&a)), strings.Compare(a.Destination, b.Destination))
	})
	all = all[:min(len(all), maxTold)]
	for i := range all {
		all[i].Destination = cut(all[i].Destination, 256)
	}
	return all
}

// cut is the beginning of a text, without characters that can't be shown.
func cut(text string, length int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	for len(text) > length {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

func tenths(n float64) float64 { return float64(int64(n*10+.5)) / 10 }

func msOf(d time.Duration) float64 {
	return float64((d + 5*time.Microsecond).Truncate(10*time.Microsecond).Microseconds()) / 1000
}

// ErrText says that a text is not a node's.
var ErrText = errors.New("not the text of a node")

// Parse reads a node's text as a shard has it. The text may be anybody's: numbers and lengths are bounded.
func Parse(text string) (Node, error) {
	if len(text) > MaxText {
		return Node{}, ErrText
	}
	var n Node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return Node{}, ErrText
	}
	const maxName, maxDestination = 64, 256
	n.Host, n.Version, n.Public, n.Admin = cut(n.Host, maxName), cut(n.Version, maxName), cut(n.Public, maxName), cut(n.Admin, maxName)
	n.Destinations = n.Destinations[:min(len(n.Destinations), maxTold)]
	for i := range n.Destinations {
		d := &n.Destinations[i]
		d.Destination, d.LastStatus = cut(d.Destination, maxDestination), cut(d.LastStatus, maxName)
		d.InFlight, d.Waiting = max(d.InFlight, 0), max(d.Waiting, 0)
		for _, rate := range []*float64{&d.Fired, &d.Failed, &d.P99Ms} {
			*rate = bounded(*rate)
		}
	}
	for _, number := range []*float64{&n.Timers.Fired, &n.Timers.Failed, &n.LateMs.P50, &n.LateMs.P99, &n.LateMs.P999, &n.LateMs.Max} {
		*number = bounded(*number)
	}
	n.Timers.InFlight = max(n.Timers.InFlight, 0)
	n.Started = time.UnixMilli(n.StartedMs)
	return n, nil
}

// bounded keeps a number in the range that a page or a duration can show.
func bounded(n float64) float64 { return min(max(n, 0), 1e12) }
