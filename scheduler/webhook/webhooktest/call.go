package webhooktest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/timer"
)

// A path that ends with PutSuffix must be called by PUT, with PutSuffix in the header AskedHeader. All
// other paths are called by POST.
const (
	PutSuffix   = ".put"
	AskedHeader = "X-Asked"
)

// Call is a callback that arrived. Fields that couldn't be read are zero.
type Call struct {
	Number  int       // in the order of arrival, from 1
	From    string    // the client's address
	Arrived time.Time // when the head was read
	Target  string    // path and query as sent
	Header  http.Header
	Body    string

	ID        timer.ID      // X-Chronos-Timer
	Version   timer.Version // of the webhook-id
	Seq       int           // X-Sequence-Number
	Attempt   int           // X-Chronos-Attempt
	LeftOut   int           // X-Chronos-Left-Out; 0 without one
	Due       time.Time     // X-Chronos-Due
	WebhookID string        // webhook-id: the same for all attempts at a pop

	Answer Answer // as decided
	Left   bool   // the client had gone before the answer
}

// Key is the key of the timer.
func (c Call) Key() string { return c.ID.Key }

// Late is how long after its due time the call arrived, by two clocks: the store's clock and this
// machine's clock.
func (c Call) Late() time.Duration { return c.Arrived.Sub(c.Due) }

// String names the call for messages.
func (c Call) String() string {
	return fmt.Sprintf("call %d to %s (%s, attempt %d)", c.Number, c.Target, c.WebhookID, c.Attempt)
}

// Answer says what happens to a call. The zero value answers 200 at once.
type Answer struct {
	Status     int           // 0 stands for 200
	Delay      time.Duration // before the answer, or before Drop
	Hang       bool          // no answer until the client gives up or the receiver is closed
	Drop       bool          // the connection is closed without an answer
	Close      bool          // the connection is closed after the answer
	RetryAfter string        // header Retry-After as it stands, none if empty
	Location   string        // header Location as it stands, none if empty
	Body       string
}

func (a Answer) status() int {
	if a.Status == 0 {
		return http.StatusOK
	}
	return a.Status
}

// Script is for Respond: the first call gets the first answer, and so on. Further calls get the zero
// Answer.
func Script(answers ...Answer) func(Call) Answer {
	answers = slices.Clone(answers)
	return func(c Call) Answer {
		if c.Number > len(answers) {
			return Answer{}
		}
		return answers[c.Number-1]
	}
}

// read reads a call and lists the call's faults.
func read(req *http.Request, body string) (Call, []string) {
	c := Call{From: req.RemoteAddr, Target: req.RequestURI, Header: req.Header, Body: body, WebhookID: req.Header.Get("Webhook-Id")}
	var faults []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	method, asked := http.MethodPost, ""
	if strings.HasSuffix(req.URL.Path, PutSuffix) {
		method, asked = http.MethodPut, PutSuffix
	}
	check(req.Method == method, "method is %q, want %s", req.Method, method)
	check(req.Header.Get(AskedHeader) == asked, "%s is %q, want %q", AskedHeader, req.Header.Get(AskedHeader), asked)
	check(req.ContentLength == int64(len(body)), "Content-Length is %d, body has %d bytes", req.ContentLength, len(body))
	check(req.Header.Get("Content-Type") != "", "no Content-Type")
	for _, name := range []string{
		"X-Sequence-Number", "X-Chronos-Timer", "X-Chronos-Attempt", "X-Chronos-Due", "Webhook-Id", "Webhook-Timestamp",
	} {
		check(len(req.Header[name]) == 1, "%s is there %d times", name, len(req.Header[name]))
	}
	var err error
	c.ID, err = timer.ParseID(req.Header.Get("X-Chronos-Timer"))
	check(err == nil, "X-Chronos-Timer: %v", err)
	c.Seq, err = strconv.Atoi(req.Header.Get("X-Sequence-Number"))
	check(err == nil && c.Seq >= 1, "X-Sequence-Number is not a number from 1")
	c.Attempt, err = strconv.Atoi(req.Header.Get("X-Chronos-Attempt"))
	check(err == nil && c.Attempt >= 1, "X-Chronos-Attempt is not a number from 1")
	if left := req.Header.Get("X-Chronos-Left-Out"); left != "" {
		c.LeftOut, err = strconv.Atoi(left)
		check(err == nil && c.LeftOut >= 1, "X-Chronos-Left-Out is not a number from 1")
	}
	c.Due, err = readDue(req.Header.Get("X-Chronos-Due"))
	check(err == nil, "X-Chronos-Due: %v", err)
	c.Version, err = readVersion(c)
	check(err == nil, "webhook-id: %v", err)
	_, err = strconv.ParseInt(req.Header.Get("Webhook-Timestamp"), 10, 64)
	check(err == nil, "webhook-timestamp: %v", err)
	return c, faults
}

// readDue reads RFC 3339 in UTC, with exactly three digits of the second's fraction.
func readDue(s string) (time.Time, error) {
	const layout = "2006-01-02T15:04:05.000Z"
	due, err := time.Parse(layout, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("read due: %w", err)
	}
	return due, nil
}

// readVersion reads the middle of <key>.<version>.<seq>; the rest must agree with the call's ID and
// Seq.
func readVersion(c Call) (timer.Version, error) {
	before, after := c.ID.Key+".", "."+strconv.Itoa(c.Seq)
	if len(c.WebhookID) <= len(before)+len(after) {
		return 0, fmt.Errorf("%q is too short", c.WebhookID)
	}
	middle := c.WebhookID[len(before) : len(c.WebhookID)-len(after)]
	if before+middle+after != c.WebhookID {
		return 0, fmt.Errorf("%q is not of timer %s, pop %d", c.WebhookID, c.ID.Key, c.Seq)
	}
	return timer.ParseVersion(middle)
}
