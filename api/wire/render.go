package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// RenderReceipt is the body of the answer to a POST or PUT; ignored are pointers to members that
// had no effect.
func RenderReceipt(r *timer.Receipt, ignored []string) []byte {
	const typical = 192
	body := appendReceipt(make([]byte, 0, typical), r)
	return append(appendIgnored(body, ignored), '}')
}

// appendReceipt writes the answer to a POST or PUT up to the optional members. The characters of an
// ID need no escapes.
func appendReceipt(dst []byte, r *timer.Receipt) []byte {
	dst = append(dst, `{"id":"`...)
	dst = r.ID.Append(dst)
	dst = append(dst, `","key":"`...)
	dst = append(dst, r.ID.Key...)
	dst = append(dst, `","due":"`...)
	dst = timer.AppendInstant(dst, r.Due)
	dst = append(dst, `","copies":`...)
	dst = strconv.AppendInt(dst, int64(r.Copies), 10)
	if r.Over {
		dst = append(dst, `,"state":"over"`...)
	}
	return dst
}

// appendIgnored writes the list of members without effect, if there are any.
func appendIgnored(dst []byte, pointers []string) []byte {
	if len(pointers) == 0 {
		return dst
	}
	dst = append(dst, `,"ignored":`...)
	delim := byte('[')
	for _, pointer := range pointers {
		dst = appendString(append(dst, delim), pointer)
		delim = ','
	}
	return append(dst, ']')
}

func appendString(dst []byte, text string) []byte {
	quoted, _ := jsontext.AppendQuote(dst, text) // text that is not UTF-8 fails, and becomes U+FFFD
	return quoted
}

// TimerView is a timer as the client asked for the timer, with defaults filled in.
type TimerView struct {
	Timing      timingView      `json:"timing"`
	Callback    callbackView    `json:"callback"`
	Reliability reliabilityView `json:"reliability"`
	Statistics  *statisticsView `json:"statistics,omitempty"`
}

type (
	// foundView is the answer to a GET: the timer and the timer's state.
	foundView struct {
		ID  string `json:"id"`
		Key string `json:"key"`
		TimerView
		State       string       `json:"state"`    // waiting, leased or retrying
		Due         string       `json:"due"`      // of the next pop or retry
		Sequence    int          `json:"sequence"` // of the next pop, from 1
		Attempts    int          `json:"attempts"` // callbacks started for that pop
		LastFailure *failureView `json:"last-failure,omitempty"`
	}
	// failureView is why the attempt before failed; an attempt that succeeded has none.
	failureView struct {
		At     string `json:"at"`
		Reason string `json:"reason"`
	}
	timingView struct {
		Interval  json.RawMessage `json:"interval,omitempty"`
		RepeatFor json.RawMessage `json:"repeat-for,omitempty"`
		At        string          `json:"at,omitempty"`
		Expires   json.RawMessage `json:"expires-after,omitempty"`
	}
	callbackView struct {
		HTTP httpView `json:"http"`
	}
	// httpView has the optional members as the client gave the members. Secrets are hidden.
	httpView struct {
		URI     string          `json:"uri"`
		Opaque  string          `json:"opaque"`
		Method  string          `json:"method,omitempty"`
		Headers json.RawMessage `json:"headers,omitempty"`
		Timeout json.RawMessage `json:"timeout,omitempty"`
		Retry   *retryView      `json:"retry,omitempty"`
	}
	retryView struct {
		Attempts int             `json:"attempts,omitempty"`
		First    json.RawMessage `json:"first,omitempty"`
		Factor   float64         `json:"factor,omitempty"`
		Longest  json.RawMessage `json:"longest,omitempty"`
	}
	reliabilityView struct {
		ReplicationFactor int `json:"replication-factor"`
	}
	statisticsView struct {
		TagInfo []tagView `json:"tag-info"`
	}
	tagView struct {
		Type  string `json:"type"`
		Count int    `json:"count"`
	}
)

// RenderTimer is the body of the answer to a GET.
func RenderTimer(found *store.ReadResult) ([]byte, error) {
	record := &found.Record
	view := foundView{
		ID:        record.ID.String(),
		Key:       record.ID.Key,
		TimerView: viewTimer(&record.Timer),
		State:     stateOf(found),
		Due:       formatInstant(found.Due),
		Sequence:  record.State.Seq,
		Attempts:  record.State.Attempt,
	}
	if failure := record.Failure; !failure.IsZero() {
		view.LastFailure = &failureView{At: formatInstant(failure.At), Reason: failure.Reason}
	}
	return marshal(view)
}

// marshal is JSON without escapes for <, > and &.
func marshal(view any) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(view); err != nil {
		return nil, fmt.Errorf("render answer: %w", err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte{'\n'}), nil
}

func viewTimer(t *timer.Timer) TimerView {
	return TimerView{viewTiming(t), viewCallback(t), reliabilityView{t.ReplicationFactor}, viewTags(t.Tags)}
}

func viewCallback(t *timer.Timer) callbackView {
	c := &t.Callback
	view := httpView{URI: c.Redacted(), Opaque: c.Opaque, Method: c.Method, Headers: headersOf(c.Headers.Redacted()), Timeout: secondsOf(c.Timeout)}
	if r := c.Retry; r != (timer.Retry{}) {
		view.Retry = &retryView{r.Attempts, secondsOf(r.First), r.Factor, secondsOf(r.Longest)}
	}
	return callbackView{view}
}

// secondsOf is nil for an absent duration.
func secondsOf(d time.Duration) json.RawMessage {
	if d == 0 {
		return nil
	}
	return formatSeconds(d)
}

// headersOf is an object in the order of the headers; nil without headers.
func headersOf(headers timer.Headers) (object json.RawMessage) {
	delim := byte('{')
	for name, value := range headers.All() {
		object = append(appendString(append(object, delim), name), ':')
		object, delim = appendString(object, value), ','
	}
	if object != nil {
		object = append(object, '}')
	}
	return object
}

// viewTags is nil without tags.
func viewTags(tags []timer.Tag) *statisticsView {
	if len(tags) == 0 {
		return nil
	}
	view := &statisticsView{}
	for _, tag := range tags {
		view.TagInfo = append(view.TagInfo, tagView(tag))
	}
	return view
}

func viewTiming(t *timer.Timer) timingView {
	view := timingView{Expires: secondsOf(t.ExpiresAfter)}
	if !t.At.IsZero() {
		view.At = formatInstant(t.At)
	}
	if t.At.IsZero() || t.RepeatFor != 0 {
		view.Interval = formatSeconds(t.Interval)
	}
	if t.RepeatFor != 0 {
		view.RepeatFor = formatSeconds(t.RepeatFor)
	}
	return view
}

// stateOf is leased while a node calls back or is about to. Otherwise stateOf is retrying if a
// callback for the next pop failed.
func stateOf(found *store.ReadResult) string {
	switch {
	case found.Leased:
		return "leased"
	case found.Record.State.Attempt > 0:
		return "retrying"
	}
	return "waiting"
}

func formatInstant(t time.Time) string { return string(timer.AppendInstant(nil, t)) }

// RenderStatistics is the body of the answer to a request for statistics, with the types in order.
func RenderStatistics(found *statistics.Sums) []byte {
	dst := []byte(`{"tags":{`)
	for i, typ := range slices.Sorted(maps.Keys(found.Tags)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, typ), ':')
		dst = strconv.AppendInt(dst, found.Tags[typ], 10)
	}
	dst = append(dst, '}')
	if found.Truncated {
		dst = append(dst, `,"truncated":true`...)
	}
	if len(found.Incomplete) > 0 {
		dst = append(dst, `,"incomplete":`...)
		delim := byte('[')
		for _, shard := range found.Incomplete {
			dst = appendString(append(dst, delim), shard)
			delim = ','
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// RenderRequest is the body of a request for a timer like t. Secrets are hidden.
func RenderRequest(t *timer.Timer) ([]byte, error) { return marshal(viewTimer(t)) }
