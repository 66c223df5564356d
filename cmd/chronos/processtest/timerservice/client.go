// Package timerservice holds a client of the Timer Service API, and a scenario that
// drives a service with the client. Client and scenario follow only the published
// description of the API. The client stands for clients that were written years before
// the service under test: these clients must work unchanged.
package timerservice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// requestTimeout bounds a request of a client built by NewClient.
const requestTimeout = 5 * time.Second

// Secs is a number of seconds in the exact spelling for the JSON, so that 2, 2.0 and 1.5
// can all be sent. The empty string leaves the number out.
type Secs = json.Number

// Timer is the body of a request that sets or updates a timer. A nil section is left out.
type Timer struct {
	Timing      *Timing      `json:"timing,omitempty"`
	Callback    *Callback    `json:"callback,omitempty"`
	Reliability *Reliability `json:"reliability,omitempty"`
	Statistics  *Statistics  `json:"statistics,omitempty"`
}

// Timing says when a timer pops, and for how long the timer recurs.
type Timing struct {
	Interval  Secs `json:"interval,omitempty"`
	RepeatFor Secs `json:"repeat-for,omitempty"`
}

// Callback says how the client is told about a pop.
type Callback struct {
	HTTP *HTTPCallback `json:"http,omitempty"`
}

// HTTPCallback is the URI to call and the text to hand back in the body.
type HTTPCallback struct {
	URI    string `json:"uri"`
	Opaque string `json:"opaque"`
}

// Reliability holds the wanted number of replicas.
type Reliability struct {
	ReplicationFactor int `json:"replication-factor"`
}

// Statistics holds the tags that name the purpose of a timer.
type Statistics struct {
	TagInfo []Tag `json:"tag-info"`
}

// Tag is a tag of a timer; a tag without a count counts once.
type Tag struct {
	Type  string `json:"type"`
	Count *int   `json:"count,omitempty"`
}

// OneShot returns a timer that pops once after the interval.
func OneShot(interval Secs, uri, opaque string) Timer {
	return Timer{
		Timing:   &Timing{Interval: interval},
		Callback: &Callback{HTTP: &HTTPCallback{URI: uri, Opaque: opaque}},
	}
}

// Recurring returns a timer that pops every interval for the given length.
func Recurring(interval, repeatFor Secs, uri, opaque string) Timer {
	timer := OneShot(interval, uri, opaque)
	timer.Timing.RepeatFor = repeatFor
	return timer
}

// StatusError is an answer with a status that does not mean success.
type StatusError struct {
	Status int
	// Reason is the Reason header, empty if the service gave none.
	Reason string
}

// Error describes the refusal.
func (e *StatusError) Error() string {
	return fmt.Sprintf("timer service answered %d (reason %q)", e.Status, e.Reason)
}

// Answer is the part of an answer that the API promises; the body is ignored.
type Answer struct {
	Status   int
	Location string
	Reason   string
}

// Client sets, updates and deletes timers. The fields may be changed before the first
// request.
type Client struct {
	// Base is the address of the service, without a slash at the end.
	Base string
	// HTTP sends the requests.
	HTTP *http.Client
	// Header is sent with every request that has a body.
	Header http.Header
}

// NewClient returns a client of the service at the address. The client follows no
// redirects, since the API has no redirects.
func NewClient(baseURL string) *Client {
	return &Client{
		Base: strings.TrimRight(baseURL, "/"),
		HTTP: &http.Client{
			Transport:     &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       requestTimeout,
		},
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// Create sets a new timer and returns its ID.
func (c *Client) Create(ctx context.Context, timer Timer) (string, error) {
	return c.set(ctx, http.MethodPost, "/timers", timer)
}

// Update replaces the timer of the ID, and returns the ID to use from now on.
func (c *Client) Update(ctx context.Context, id string, timer Timer) (string, error) {
	return c.set(ctx, http.MethodPut, "/timers/"+id, timer)
}

// Delete removes the timer of the ID.
func (c *Client) Delete(ctx context.Context, id string) error {
	answer, err := c.Send(ctx, http.MethodDelete, "/timers/"+id, nil)
	if err != nil {
		return err
	}
	if answer.Status != http.StatusCreated {
		return &StatusError{Status: answer.Status, Reason: answer.Reason}
	}
	return nil
}

// Send makes a request with an unchanged body, and returns the answer, whatever its status.
func (c *Client) Send(ctx context.Context, method, path string, body []byte) (Answer, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, reader)
	if err != nil {
		return Answer{}, fmt.Errorf("build %s %s: %w", method, path, err)
	}
	if body != nil {
		maps.Copy(req.Header, c.Header)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("send request: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return Answer{}, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return answerOf(resp), nil
}

func (c *Client) set(ctx context.Context, method, path string, timer Timer) (string, error) {
	body, err := json.Marshal(timer)
	if err != nil {
		return "", fmt.Errorf("encode timer: %w", err)
	}
	answer, err := c.Send(ctx, method, path, body)
	if err != nil {
		return "", err
	}
	return answer.TimerID()
}

func answerOf(resp *http.Response) Answer {
	return Answer{
		Status:   resp.StatusCode,
		Location: resp.Header.Get("Location"),
		Reason:   resp.Header.Get("Reason"),
	}
}

// TimerID returns the ID in the answer to a request that set a timer. The Location may be a
// full URL, a path or the ID alone. The ID is the last segment, still escaped, as later
// requests need the ID.
func (a Answer) TimerID() (string, error) {
	if a.Status != http.StatusOK {
		return "", &StatusError{Status: a.Status, Reason: a.Reason}
	}
	location, err := url.Parse(a.Location)
	if err != nil {
		return "", fmt.Errorf("parse location: %w", err)
	}
	path := strings.TrimRight(location.EscapedPath(), "/")
	id := path[strings.LastIndex(path, "/")+1:]
	if id == "" || id == "timers" {
		return "", fmt.Errorf("no timer ID in location %q", a.Location)
	}
	return id, nil
}

// Pop is a callback as the receiver saw the callback.
type Pop struct {
	At            time.Time
	Method        string
	Proto         string
	URI           string // path and query
	Path          string
	Host          string
	ContentLength string
	Sequence      string // X-Sequence-Number
	Body          []byte
}

// Receiver is the handler of the client's callbacks. The zero value answers 200 at once.
type Receiver struct {
	mu     sync.Mutex
	pops   []Pop
	status int
	delay  time.Duration
}

// SetStatus sets the status of the answers from now on.
func (r *Receiver) SetStatus(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// SetDelay sets how long an answer takes from now on.
func (r *Receiver) SetDelay(delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = delay
}

// Pops returns the callbacks for the path so far, in the order of arrival.
func (r *Receiver) Pops(path string) []Pop {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pops []Pop
	for _, pop := range r.pops {
		if pop.Path == path {
			pops = append(pops, pop)
		}
	}
	return pops
}

// ServeHTTP records and answers the callback.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, "unreadable body", http.StatusBadRequest)
		return
	}
	status, delay := r.record(Pop{
		At:            at,
		Method:        req.Method,
		Proto:         req.Proto,
		URI:           req.URL.RequestURI(),
		Path:          req.URL.Path,
		Host:          req.Host,
		ContentLength: req.Header.Get("Content-Length"),
		Sequence:      req.Header.Get("X-Sequence-Number"),
		Body:          body,
	})
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
	}
	w.WriteHeader(status)
}

func (r *Receiver) record(pop Pop) (status int, delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pops = append(r.pops, pop)
	if r.status == 0 {
		return http.StatusOK, r.delay
	}
	return r.status, r.delay
}
