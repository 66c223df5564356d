package wire

import (
	"math"
	"time"

	"chronos/scheduler/cluster"
	"chronos/scheduler/timer"
)

type (
	// StatusView is the cluster as the admin listener shows the cluster.
	StatusView struct {
		View       string       `json:"view"`
		Epoch      int64        `json:"epoch"`
		Nodes      []nodeView   `json:"nodes"`
		Shards     []shardView  `json:"shards"`
		Timers     timersView   `json:"timers"`
		FiredPerS  float64      `json:"fired_per_s"`
		FailedPerS float64      `json:"failed_per_s"`
		InFlight   int          `json:"in_flight"`
		LateMS     latenessView `json:"late_ms"`
		Dead       deadView     `json:"dead"`
		Alarms     []alarmView  `json:"alarms"`
		Unreached  []string     `json:"unreached"`
	}
	nodeView struct {
		ID         string       `json:"id"`
		Self       bool         `json:"self"`
		Host       string       `json:"host"`
		Version    string       `json:"version"`
		Format     int          `json:"format"`
		Public     string       `json:"public"`
		Admin      string       `json:"admin"`
		Started    *string      `json:"started"`
		SeenMS     float64      `json:"seen_ms"` // ago
		FiredPerS  float64      `json:"fired_per_s"`
		FailedPerS float64      `json:"failed_per_s"`
		InFlight   int          `json:"in_flight"`
		LateMS     latenessView `json:"late_ms"`
	}
	// shardView has null for what is unknown, and for a problem that there is not.
	shardView struct {
		Name             string   `json:"name"`
		URL              string   `json:"url"`
		State            string   `json:"state"`
		Up               bool     `json:"up"`
		Copies           *int64   `json:"copies"`
		Swept            *float64 `json:"swept"`
		SweepLeftSeconds float64  `json:"sweep_left_seconds"`
		OldestDueSeconds float64  `json:"oldest_due_seconds"`
		ClockOffsetMS    float64  `json:"clock_offset_ms"`
		Persists         string   `json:"persists"`
		Evicts           bool     `json:"evicts"`
		RedisVersion     *string  `json:"redis_version"`
		UsedMemory       *int64   `json:"used_memory"` // bytes
		MaxMemory        int64    `json:"max_memory"`  // bytes; 0 for no limit
		Dead             int64    `json:"dead"`
		Problem          *string  `json:"problem"`
	}
	timersView struct {
		About   int64 `json:"about"`
		Copies  int64 `json:"copies"`
		Sampled int   `json:"sampled"`
	}
	latenessView struct {
		P50  float64 `json:"p50"`
		P99  float64 `json:"p99"`
		P999 float64 `json:"p999"`
		Max  float64 `json:"max"`
	}
	deadView struct {
		Total int64 `json:"total"`
	}
	alarmView struct {
		Code  string  `json:"code"`
		Text  string  `json:"text"`
		Shard *string `json:"shard"`
	}
)

// ViewStatus makes the view of a cluster. What nodes and Redis instances say of themselves is made
// printable. Destinations are left out, since whoever may read the metrics may read the view.
func ViewStatus(s *cluster.Status) StatusView {
	view := StatusView{
		View: s.View, Epoch: s.Epoch,
		Nodes: make([]nodeView, len(s.Nodes)), Shards: make([]shardView, len(s.Shards)), Alarms: make([]alarmView, len(s.Alarms)),
		Timers: timersView(s.Timers), Dead: deadView{s.Dead},
		FiredPerS: figure(s.PerSecond.Fired), FailedPerS: figure(s.PerSecond.Failed), InFlight: s.InFlight,
		LateMS: viewLateness(s.Late), Unreached: listed(s.Unreached),
	}
	for i := range s.Nodes {
		view.Nodes[i] = viewNode(&s.Nodes[i])
	}
	for i := range s.Shards {
		view.Shards[i] = viewShard(&s.Shards[i])
	}
	for i, a := range s.Alarms {
		view.Alarms[i] = alarmView{string(a.Code), shown(a.Text), orNull(a.Shard)}
	}
	return view
}

func viewNode(n *cluster.Node) nodeView {
	view := nodeView{
		ID: shown(n.ID), Self: n.Self, Host: shown(n.Host), Version: shown(n.Version), Format: n.Format, Public: shown(n.Public), Admin: shown(n.Admin),
		SeenMS: milliseconds(n.Seen), FiredPerS: figure(n.PerSecond.Fired), FailedPerS: figure(n.PerSecond.Failed), InFlight: n.InFlight, LateMS: viewLateness(n.Late),
	}
	view.Started = instantOrNull(n.Started)
	return view
}

func viewShard(s *cluster.Shard) shardView {
	view := shardView{
		Name: s.Name, URL: ReplaceUsers(s.URL, timer.RedactedUser+"@"), State: s.State, Up: s.Up, Copies: s.Copies, Swept: s.Swept,
		SweepLeftSeconds: seconds(s.SweepLeft), OldestDueSeconds: seconds(s.OldestDue), ClockOffsetMS: milliseconds(s.ClockOffset),
		Persists: s.Persists, Evicts: s.Evicts, RedisVersion: orNull(shown(s.Version)), MaxMemory: s.MaxMemory, Dead: s.Letters,
		Problem: orNull(shown(s.Problem)),
	}
	if s.UsedMemory != 0 {
		view.UsedMemory = &s.UsedMemory
	}
	return view
}

func viewLateness(l cluster.Lateness) latenessView {
	return latenessView{milliseconds(l.P50), milliseconds(l.P99), milliseconds(l.P999), milliseconds(l.Max)}
}

// milliseconds is a duration in ms, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// seconds is a duration in seconds, to the millisecond.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// figure is a number to two decimals; JSON has no infinity.
func figure(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return math.Round(f*100) / 100
}

// shown is a text of another process, fit to be shown: printable and without users and passwords.
func shown(text string) string {
	return Printable(ReplaceUsers(text, timer.RedactedUser+"@"))
}

// listed is the list, and an empty list in place of nil.
func listed(list []string) []string { return append([]string{}, list...) }

// orNull is the text; nil, which is null in JSON, if the text is empty.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// instantOrNull is the instant; nil, which is null in JSON, for zero.
func instantOrNull(at time.Time) *string {
	if at.IsZero() {
		return nil
	}
	return orNull(formatInstant(at))
}
