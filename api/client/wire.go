package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The bodies of requests and answers.
type (
	timerBody struct {
		Timing      timingBody       `json:"timing"`
		Callback    callbackBody     `json:"callback"`
		Reliability *reliabilityBody `json:"reliability,omitempty"`
		Statistics  *statisticsBody  `json:"statistics,omitempty"`
	}
	timingBody struct {
		Interval  json.Number `json:"interval,omitempty"`
		RepeatFor json.Number `json:"repeat-for,omitempty"`
		At        string      `json:"at,omitempty"`
		Expires   json.Number `json:"expires-after,omitempty"`
	}
	callbackBody struct {
		HTTP httpBody `json:"http"`
	}
	httpBody struct {
		URI     string            `json:"uri"`
		Opaque  string            `json:"opaque,omitempty"`
		Method  string            `json:"method,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Timeout json.Number       `json:"timeout,omitempty"`
		Retry   retryBody         `json:"retry,omitzero"`
	}
	retryBody struct {
		Attempts int         `json:"attempts,omitempty"`
		First    json.Number `json:"first,omitempty"`
		Factor   float64     `json:"factor,omitempty"`
		Longest  json.Number `json:"longest,omitempty"`
	}
	reliabilityBody struct {
		ReplicationFactor int `json:"replication-factor"`
	}
	statisticsBody struct {
		TagInfo []tagBody `json:"tag-info"`
	}
	tagBody struct {
		Type  string `json:"type"`
		Count int    `json:"count,omitempty"`
	}
	receiptBody struct {
		ID      string    `json:"id"`
		Key     string    `json:"key"`
		Due     time.Time `json:"due"`
		Copies  int       `json:"copies"`
		State   string    `json:"state"`
		Ignored []string  `json:"ignored"`
	}
	storedBody struct {
		timerBody

		ID          string       `json:"id"`
		Key         string       `json:"key"`
		State       State        `json:"state"`
		Due         time.Time    `json:"due"`
		Sequence    int          `json:"sequence"`
		Attempts    int          `json:"attempts"`
		LastFailure *failureBody `json:"last-failure"`
	}
	exportedBody struct {
		timerBody

		Key    string `json:"key"`
		Hidden bool   `json:"hidden"`
	}
	failureBody struct {
		At     time.Time `json:"at"`
		Reason string    `json:"reason"`
	}
)

func encodeTimer(t *Timer) ([]byte, error) {
	if err := t.checkText(); err != nil {
		return nil, err
	}
	if !t.At.IsZero() && t.Interval != 0 && t.RepeatFor == 0 {
		return nil, argumentError("the timer has both Interval and At; give one of them, or RepeatFor for a timer that recurs")
	}
	body := timerBody{Callback: callbackBody{httpBody{
		URI: t.URI, Opaque: t.Opaque, Method: t.Method, Headers: t.Headers, Timeout: optional(t.Timeout),
		Retry: retryBody{t.Retry.Attempts, optional(t.Retry.First), t.Retry.Factor, optional(t.Retry.Longest)},
	}}}
	body.Timing.Expires = optional(t.ExpiresAfter)
	if !t.At.IsZero() {
		body.Timing.At = t.At.UTC().Format(time.RFC3339Nano)
	}
	if t.At.IsZero() || t.RepeatFor != 0 {
		body.Timing.Interval = seconds(t.Interval)
	}
	body.Timing.RepeatFor = optional(t.RepeatFor)
	if t.ReplicationFactor != 0 {
		body.Reliability = &reliabilityBody{t.ReplicationFactor}
	}
	if len(t.Tags) > 0 {
		body.Statistics = &statisticsBody{}
	}
	for _, tag := range t.Tags {
		body.Statistics.TagInfo = append(body.Statistics.TagInfo, tagBody(tag))
	}
	raw, err := json.Marshal(&body)
	if err != nil {
		return nil, fmt.Errorf("encode timer: %w", err)
	}
	return raw, nil
}

// checkText refuses text that is not UTF-8, since json.Marshal would change the text without an error.
func (t *Timer) checkText() error {
	switch {
	case !utf8.ValidString(t.Opaque):
		return argumentError("the opaque data is not UTF-8; encode it, for example as Base64")
	case !utf8.ValidString(t.URI):
		return argumentError("the URI is not UTF-8; percent-encode it")
	}
	for name, value := range t.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return argumentError("a header is not UTF-8")
		}
	}
	for _, tag := range t.Tags {
		if !utf8.ValidString(tag.Type) {
			return argumentError("the type of a tag is not UTF-8")
		}
	}
	return nil
}

// optional is "" for zero.
func optional(d time.Duration) json.Number {
	if d == 0 {
		return ""
	}
	return seconds(d)
}

// seconds writes a duration exactly.
func seconds(d time.Duration) json.Number {
	sign, rest := "", uint64(d)
	if d < 0 {
		sign, rest = "-", -rest
	}
	const second = uint64(time.Second)
	fraction := strings.TrimRight(fmt.Sprintf("%09d", rest%second), "0")
	if fraction != "" {
		fraction = "." + fraction
	}
	return json.Number(sign + strconv.FormatUint(rest/second, 10) + fraction)
}

// duration reads seconds in whole milliseconds. Whole milliseconds are exact in a float64 up to the
// longest Duration.
func duration(text json.Number) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	value, err := text.Float64()
	if err != nil || math.Abs(value) > math.MaxInt64/float64(time.Second) {
		return 0, errors.New("an interval that is no number of seconds")
	}
	return time.Duration(math.Round(value*1000)) * time.Millisecond, nil
}

func decodeReceipt(raw []byte) (Receipt, error) {
	var body receiptBody
	if err := json.Unmarshal(raw, &body); err != nil || body.ID == "" {
		return Receipt{}, errors.New("the answer is not a receipt of chronos; is the base URL right?")
	}
	return body.receipt(), nil
}

func (b *receiptBody) receipt() Receipt {
	return Receipt{ID: b.ID, Key: b.Key, Due: b.Due, Copies: b.Copies, Ignored: b.Ignored, Over: b.State == "over"}
}

func decodeStored(raw []byte) (Stored, error) {
	var body storedBody
	if err := json.Unmarshal(raw, &body); err != nil || body.ID == "" {
		return Stored{}, errors.New("the answer is not a timer of chronos; is the base URL right?")
	}
	stored := Stored{
		ID: body.ID, Key: body.Key, State: body.State, Due: body.Due, Sequence: body.Sequence, Attempts: body.Attempts,
	}
	var err error
	if stored.Timer, err = body.timer(); err != nil {
		return Stored{}, fmt.Errorf("the answer has %w", err)
	}
	if body.LastFailure != nil {
		stored.LastFailure = &Failure{At: body.LastFailure.At, Reason: body.LastFailure.Reason}
	}
	return stored, nil
}

// timer is the timer that a body asks for.
func (b *timerBody) timer() (t Timer, err error) {
	http := &b.Callback.HTTP
	t.URI, t.Opaque, t.Method, t.Headers = http.URI, http.Opaque, http.Method, http.Headers
	t.Retry.Attempts, t.Retry.Factor = http.Retry.Attempts, http.Retry.Factor
	for _, read := range []struct {
		to   *time.Duration
		from json.Number
	}{
		{&t.Interval, b.Timing.Interval}, {&t.RepeatFor, b.Timing.RepeatFor}, {&t.ExpiresAfter, b.Timing.Expires},
		{&t.Timeout, http.Timeout}, {&t.Retry.First, http.Retry.First}, {&t.Retry.Longest, http.Retry.Longest},
	} {
		if *read.to, err = duration(read.from); err != nil {
			return t, err
		}
	}
	if b.Timing.At != "" {
		if t.At, err = time.Parse(time.RFC3339, b.Timing.At); err != nil {
			return t, errors.New("an at that is no instant")
		}
	}
	if b.Reliability != nil {
		t.ReplicationFactor = b.Reliability.ReplicationFactor
	}
	if b.Statistics != nil {
		for _, tag := range b.Statistics.TagInfo {
			t.Tags = append(t.Tags, Tag(tag))
		}
	}
	return t, nil
}

// MarshalJSON writes a timer as POST /timers takes the timer.
func (t Timer) MarshalJSON() ([]byte, error) { return encodeTimer(&t) }

// UnmarshalJSON reads a timer in the form of POST /timers. A member that is unknown is an error.
func (t *Timer) UnmarshalJSON(raw []byte) error {
	var body timerBody
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return fmt.Errorf("read timer: %w", err)
	}
	read, err := body.timer()
	switch timing := &body.Timing; {
	case err != nil:
		return fmt.Errorf("the timer has %w", err)
	case timing.Interval == "" && timing.At == "":
		return errors.New("the timer needs an interval or an at in its timing")
	case timing.Interval != "" && timing.At != "" && read.RepeatFor == 0:
		return errors.New("the timer needs either an interval or an at in its timing, since the timer does not recur")
	}
	*t = read
	return nil
}
