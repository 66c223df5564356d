// Package fakenode is a node without storage that misbehaves on demand, to prove that the load test notices faults.
package fakenode

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bug is a way to misbehave.
type Bug string

// The bugs. A bug of a single callback strikes every third callback.
const (
	None        Bug = ""
	Early       Bug = "early"        // calls 20 ms before the due time
	Lost        Bug = "lost"         // doesn't call
	Doubled     Bug = "doubled"      // calls twice
	Altered     Bug = "altered"      // changes the body
	AfterDelete Bug = "after-delete" // answers a DELETE and does nothing
	AfterUpdate Bug = "after-update" // keeps the old version alive beside the new version of a PUT
	Repeated    Bug = "repeated"     // makes a second timer when a POST is repeated with the same Idempotency-Key
)

// Bugs returns all bugs.
func Bugs() []Bug { return []Bug{Early, Lost, Doubled, Altered, AfterDelete, AfterUpdate, Repeated} }

const (
	callLimit = 2 * time.Second
	earlyBy   = 20 * time.Millisecond
	every     = 3
)

// Node answers POST, PUT and DELETE of timers, and makes the callbacks. The timers are in memory only.
type Node struct {
	bug    Bug
	client *http.Client
	web    *http.Server
	url    string
	calls  sync.WaitGroup
	served chan struct{} // closed when web has ended

	mu     sync.Mutex
	closed bool
	minted int
	writes uint64
	pops   int
	timers map[string]*timer // by key
	once   map[string]*timer // by Idempotency-Key
	all    map[*timer]struct{}
}

// timer is a version of a timer. The node's lock guards the timer.
type timer struct {
	key, version string
	start        time.Time
	interval     time.Duration
	sequence     int // of the next pop
	pops         int
	uri, body    string
	wait         *time.Timer
	inFlight     int
}

// request is the part of a POST or PUT body that the node reads.
type request struct {
	Timing struct {
		Interval  float64 `json:"interval"`
		RepeatFor float64 `json:"repeat-for"`
	} `json:"timing"`
	Callback struct {
		HTTP struct {
			URI    string `json:"uri"`
			Opaque string `json:"opaque"`
		} `json:"http"`
	} `json:"callback"`
}

// Start serves on a free port of the loopback interface until Close.
func Start(ctx context.Context, bug Bug) (*Node, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start fake node: %w", err)
	}
	n := &Node{
		bug: bug,
		client: &http.Client{
			Timeout:   callLimit,
			Transport: &http.Transport{MaxIdleConnsPerHost: 256},
		},
		url:    "http://" + listener.Addr().String(),
		served: make(chan struct{}),
		timers: make(map[string]*timer),
		once:   make(map[string]*timer),
		all:    make(map[*timer]struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /timers", n.put)
	mux.HandleFunc("PUT /timers/{id}", n.put)
	mux.HandleFunc("DELETE /timers/{id}", n.remove)
	n.web = &http.Server{Handler: mux, ReadHeaderTimeout: callLimit}
	go func() {
		defer close(n.served)
		_ = n.web.Serve(listener)
	}()
	return n, nil
}

// URL is the address of the node, without a slash at the end.
func (n *Node) URL() string { return n.url }

// Close stops serving and calling. Close waits for callbacks under way, for 2 s at most.
func (n *Node) Close() {
	_ = n.web.Close()
	<-n.served
	n.mu.Lock()
	n.closed = true
	for t := range n.all {
		t.wait.Stop()
	}
	n.mu.Unlock()
	n.calls.Wait()
	n.client.CloseIdleConnections()
}

func (n *Node) put(w http.ResponseWriter, r *http.Request) {
	var in request
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t := &timer{
		start:    time.UnixMilli(time.Now().UnixMilli() + 1),
		interval: time.Duration(math.Round(in.Timing.Interval*1000)) * time.Millisecond,
		sequence: 1,
		pops:     1,
		uri:      in.Callback.HTTP.URI, body: in.Callback.HTTP.Opaque,
	}
	if in.Timing.RepeatFor > 0 {
		t.pops = int(math.Floor(in.Timing.RepeatFor / in.Timing.Interval))
	}
	n.mu.Lock()
	idempotencyKey := r.Header.Get("Idempotency-Key")
	if first := n.once[idempotencyKey]; first != nil && n.bug != Repeated {
		n.mu.Unlock()
		w.Header().Set("Idempotent-Replayed", "true")
		answer(w, first)
		return
	}
	key := keyOf(r.PathValue("id"))
	if key == "" {
		n.minted++
		key = fmt.Sprintf("%032x", n.minted)
	}
	inFlight := n.bug != AfterUpdate && n.stop(key)
	n.writes++
	t.key, t.version = key, fmt.Sprintf("%016x", n.writes)
	n.timers[key] = t
	n.all[t] = struct{}{}
	if idempotencyKey != "" {
		n.once[idempotencyKey] = t
	}
	n.schedule(t)
	n.mu.Unlock()

	if inFlight {
		w.Header().Set("X-Chronos-In-Flight", "true")
	}
	answer(w, t)
}

// answer describes a timer as of the time of the write.
func answer(w http.ResponseWriter, t *timer) {
	w.Header().Set("Location", "/timers/"+t.id())
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":%q,"key":%q,"due":%q,"copies":1}`, t.id(), t.key, stamp(t.start.Add(t.interval)))
}

func (n *Node) remove(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	inFlight := n.bug != AfterDelete && n.stop(keyOf(r.PathValue("id")))
	n.mu.Unlock()
	if inFlight {
		w.Header().Set("X-Chronos-In-Flight", "true")
	}
	w.WriteHeader(http.StatusCreated)
}

// stop ends a timer, and reports whether a callback of the timer is under way. The caller holds the lock.
func (n *Node) stop(key string) (inFlight bool) {
	t := n.timers[key]
	if t == nil {
		return false
	}
	t.wait.Stop()
	delete(n.timers, key)
	delete(n.all, t)
	return t.inFlight > 0
}

// schedule waits for the next pop. The caller holds the lock.
func (n *Node) schedule(t *timer) {
	if t.sequence > t.pops || n.closed {
		delete(n.all, t)
		return
	}
	n.pops++
	befallen := n.pops%every == 0
	at := t.due()
	if befallen && n.bug == Early {
		at = at.Add(-earlyBy)
	}
	t.wait = time.AfterFunc(time.Until(at), func() { n.fire(t, befallen) })
}

func (n *Node) fire(t *timer, befallen bool) {
	n.mu.Lock()
	if _, alive := n.all[t]; !alive || n.closed {
		n.mu.Unlock()
		return
	}
	n.calls.Add(1)
	defer n.calls.Done()
	t.inFlight++
	call := *t
	t.sequence++
	n.schedule(t)
	n.mu.Unlock()

	times := 1
	if befallen && n.bug == Lost {
		times = 0
	}
	if befallen && n.bug == Doubled {
		times = 2
	}
	if befallen && n.bug == Altered {
		call.body += "!"
	}
	for range times {
		n.send(&call)
	}

	n.mu.Lock()
	t.inFlight--
	n.mu.Unlock()
}

// send makes a callback, once. The receiver must notice a failure: the fake node tries only once.
func (n *Node) send(t *timer) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.uri, strings.NewReader(t.body))
	if err != nil {
		return
	}
	r.Header.Set("X-Sequence-Number", strconv.Itoa(t.sequence))
	r.Header.Set("X-Chronos-Timer", t.id())
	r.Header.Set("X-Chronos-Attempt", "1")
	r.Header.Set("X-Chronos-Due", stamp(t.due()))
	r.Header.Set("webhook-id", t.key+"."+t.version+"."+strconv.Itoa(t.sequence))
	response, err := n.client.Do(r)
	if err == nil {
		_ = response.Body.Close()
	}
}

const hint = "-2-00000000000000ff"

func (t *timer) id() string { return t.key + hint }

func (t *timer) due() time.Time { return t.start.Add(time.Duration(t.sequence) * t.interval) }

func keyOf(id string) string { return strings.TrimSuffix(id, hint) }

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }
