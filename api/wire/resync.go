package wire

import (
	"encoding/json"

	"chronos/scheduler/resync"
)

// The answer to a resynchronisation has the names of the Timer Service API. The Timer Service API
// doesn't know due, at, replication-factor and statistics.
type (
	resyncView struct {
		Timers []resyncedView `json:"timers"`
	}
	resyncedView struct {
		TimerID     string          `json:"TimerID"`
		OldReplicas []string        `json:"OldReplicas"`
		Timer       resyncTimerView `json:"Timer"`
	}
	resyncTimerView struct {
		Timing      resyncTimingView      `json:"timing"`
		Callback    callbackView          `json:"callback"`
		Reliability resyncReliabilityView `json:"reliability"`
		Statistics  *statisticsView       `json:"statistics,omitempty"`
	}
	resyncTimingView struct {
		StartTime      uint32          `json:"start-time"`      // ms since 1970, modulo 2^32
		SequenceNumber int             `json:"sequence-number"` // of the next pop, from 0
		Interval       json.RawMessage `json:"interval"`
		RepeatFor      json.RawMessage `json:"repeat-for"`
		At             string          `json:"at,omitempty"`
		Expires        json.RawMessage `json:"expires-after,omitempty"`
		Due            string          `json:"due"` // the place in the list
	}
	resyncReliabilityView struct {
		ClusterViewID     string   `json:"cluster-view-id"`
		Replicas          []string `json:"replicas"`
		ReplicationFactor int      `json:"replication-factor"`
		Sites             []string `json:"sites,omitempty"`
	}
)

// RenderResync is the body of the answer to a request for resynchronisation.
func RenderResync(page *resync.Page) ([]byte, error) {
	view := resyncView{Timers: make([]resyncedView, len(page.Timers))}
	for i := range page.Timers {
		view.Timers[i] = viewResynced(&page.Timers[i], page.View)
	}
	return marshal(view)
}

func viewResynced(t *resync.Entry, view string) resyncedView {
	r := &t.Record
	v := resyncedView{TimerID: r.ID.String(), OldReplicas: t.Former}
	v.Timer = resyncTimerView{
		Timing: resyncTimingView{
			StartTime: uint32(r.Start.UnixMilli()), SequenceNumber: r.State.Seq - 1, //nolint:gosec // modulo 2^32
			Interval: formatSeconds(r.Timer.Interval), RepeatFor: formatSeconds(r.Timer.RepeatFor),
			Expires: secondsOf(r.Timer.ExpiresAfter), Due: formatInstant(t.At),
		},
		Callback:    viewCallback(&r.Timer),
		Reliability: resyncReliabilityView{ClusterViewID: view, Replicas: t.Replicas, ReplicationFactor: r.Timer.ReplicationFactor, Sites: t.Sites},
		Statistics:  viewTags(r.Timer.Tags),
	}
	if !r.Timer.At.IsZero() {
		v.Timer.Timing.At = formatInstant(r.Timer.At)
	}
	return v
}
