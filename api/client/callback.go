package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxCallback is the longest body of a callback that ParseCallback reads, in bytes. A node accepts
// at most as many bytes in the body of a request.
const MaxCallback = 64 << 20

const leftOutHeader = "X-Chronos-Left-Out"

// Callback is an attempt at a pop. Any 2xx within 2 s is success; 410 ends the timer. After any
// further answer the callback comes again, with the same WebhookID.
type Callback struct {
	// Timer is the timer's id. The id's end may change; Key never changes.
	Timer, Key string
	// Sequence is the number of the pop, and Attempt the number of the attempt at the pop, from 1.
	Sequence, Attempt int
	// LeftOut is how many overdue pops were left out since the last callback that succeeded.
	LeftOut int
	// Due is when the pop was due.
	Due time.Time
	// WebhookID is the same for all attempts at a pop, and differs between pops. Receivers can drop
	// repeats by the WebhookID.
	WebhookID string
	// Sent is when this attempt was sent, in whole seconds.
	Sent time.Time
	// Body is the timer's opaque data.
	Body []byte
}

// ParseCallback reads a callback and its body, at most MaxCallback bytes; http.MaxBytesReader can
// set a smaller bound. ParseCallback doesn't verify webhook-signature. The error says which header
// is missing or malformed; 400 is a good answer.
func ParseCallback(r *http.Request) (Callback, error) {
	if r.Method != http.MethodPost {
		return Callback{}, errors.New("parse callback: the method is not POST")
	}
	c := Callback{Timer: r.Header.Get("X-Chronos-Timer"), WebhookID: r.Header.Get("webhook-id")}
	if c.Timer == "" {
		return Callback{}, errors.New("parse callback: X-Chronos-Timer is missing")
	}
	var ok bool
	if c.Key, ok = keyOf(c.WebhookID); !ok {
		return Callback{}, errors.New("parse callback: webhook-id is missing or malformed")
	}
	var err error
	if c.Sequence, err = ordinal(r, "X-Sequence-Number"); err != nil {
		return Callback{}, err
	}
	if c.Attempt, err = ordinal(r, "X-Chronos-Attempt"); err != nil {
		return Callback{}, err
	}
	if r.Header.Get(leftOutHeader) != "" {
		if c.LeftOut, err = ordinal(r, leftOutHeader); err != nil {
			return Callback{}, err
		}
	}
	if c.Due, err = time.Parse(time.RFC3339, r.Header.Get("X-Chronos-Due")); err != nil {
		return Callback{}, errors.New("parse callback: X-Chronos-Due is missing or malformed")
	}
	sent, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		return Callback{}, errors.New("parse callback: webhook-timestamp is missing or malformed")
	}
	c.Sent = time.Unix(sent, 0).UTC()
	if c.Body, err = io.ReadAll(io.LimitReader(r.Body, MaxCallback+1)); err != nil {
		return Callback{}, fmt.Errorf("parse callback: read body: %w", err)
	}
	if len(c.Body) > MaxCallback {
		return Callback{}, errors.New("parse callback: the body is too long")
	}
	return c, nil
}

func ordinal(r *http.Request, header string) (int, error) {
	n, err := strconv.Atoi(r.Header.Get(header))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("parse callback: %s is missing or malformed", header)
	}
	return n, nil
}

// keyOf is the first part of a webhook-id: key.version.sequence. A key may have dots.
func keyOf(webhookID string) (key string, ok bool) {
	end := strings.LastIndexByte(webhookID, '.')
	if end < 0 {
		return "", false
	}
	end = strings.LastIndexByte(webhookID[:end], '.')
	return webhookID[:max(end, 0)], end > 0
}
