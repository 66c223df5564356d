package processtest

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/webhook/webhooktest"
)

// lateLink is a TCP proxy between one node and one Redis. Each direction can be
// delayed, or can stand still, by itself.
type lateLink struct {
	listener net.Listener
	to       string

	requests, answers lateWay

	mu    sync.Mutex
	conns map[net.Conn]bool // both ends of all connections; nil once the link has ended
}

// lateWay is one direction of a link. The zero value carries bytes at once.
type lateWay struct {
	mu    sync.Mutex
	delay time.Duration
	gate  chan struct{} // bytes wait until the gate is closed; nil while nothing waits
}

func newLateLink(t *testing.T, to string) *lateLink {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lateLink{listener: listener, to: to, conns: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() { l.accept(&wg) })
	t.Cleanup(func() {
		_ = listener.Close()
		l.goOn()
		l.mu.Lock()
		for c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
		l.mu.Unlock()
		wg.Wait()
	})
	return l
}

func (l *lateLink) accept(wg *sync.WaitGroup) {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { l.serve(from) })
	}
}

func (l *lateLink) serve(from net.Conn) {
	defer from.Close() //nolint:errcheck // nothing is left to say
	to, err := new(net.Dialer).Dial("tcp", l.to)
	if err != nil {
		return // Redis is down, and the node sees that
	}
	defer to.Close() //nolint:errcheck // likewise
	if !l.remember(from, to) {
		return
	}
	defer l.forget(from, to)
	var wg sync.WaitGroup
	wg.Go(func() { l.requests.carry(from, to) })
	l.answers.carry(to, from)
	wg.Wait()
}

func (l *lateLink) remember(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return false
	}
	for _, c := range conns {
		l.conns[c] = true
	}
	return true
}

func (l *lateLink) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}

// standStill holds all bytes back, both ways, until goOn.
func (l *lateLink) standStill() {
	l.requests.stop()
	l.answers.stop()
}

func (l *lateLink) goOn() {
	l.requests.goOn()
	l.answers.goOn()
}

// setDelay makes each direction take so long.
func (l *lateLink) setDelay(d time.Duration) {
	for _, w := range []*lateWay{&l.requests, &l.answers} {
		w.mu.Lock()
		w.delay = d
		w.mu.Unlock()
	}
}

func (l *lateLink) url() string { return "redis://" + l.listener.Addr().String() + "/0" }

func (w *lateWay) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == nil {
		w.gate = make(chan struct{})
	}
}

func (w *lateWay) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != nil {
		close(w.gate)
		w.gate = nil
	}
}

func (w *lateWay) state() (delay time.Duration, gate chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay, w.gate
}

// chunk is bytes that leave a link no earlier than at an instant.
type chunk struct {
	bytes []byte
	from  time.Time
}

// carry ends when either end is closed, and closes both.
func (w *lateWay) carry(from, to net.Conn) {
	const bound = 4096 // chunks under way
	under := make(chan chunk, bound)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer from.Close() //nolint:errcheck // the connection is over
		for c := range under {
			time.Sleep(time.Until(c.from))
			if _, gate := w.state(); gate != nil {
				<-gate
			}
			if _, err := to.Write(c.bytes); err != nil {
				break
			}
		}
		for range under { // what is left has nowhere to go
		}
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			delay, _ := w.state()
			under <- chunk{append([]byte(nil), buf[:n]...), time.Now().Add(delay)}
		}
		if err != nil {
			break
		}
	}
	close(under)
	wg.Wait()
	_ = to.Close()
}

// lateRig is two nodes on three Redis, with a link between each node and each Redis.
type lateRig struct {
	t        *testing.T
	shards   []*redisServer
	nodes    []*nodeProcess
	links    [][]*lateLink // by node, then by shard
	receiver *webhooktest.Receiver
	client   *api
}

func newLateRig(t *testing.T, env ...string) *lateRig {
	t.Helper()
	r := &lateRig{t: t, receiver: webhooktest.New(t), client: newAPI(t)}
	for range 3 {
		r.shards = append(r.shards, startRedis(t))
	}
	for range 2 {
		var links []*lateLink
		var urls []string
		for _, s := range r.shards {
			l := newLateLink(t, strings.TrimSuffix(strings.TrimPrefix(s.url, "redis://"), "/0"))
			links, urls = append(links, l), append(urls, l.url())
		}
		r.links = append(r.links, links)
		r.nodes = append(r.nodes, startNode(t, urls[0]+",b="+urls[1]+",c="+urls[2], env...))
	}
	return r
}

// wait is a time in the schedule of the faults.
func (r *lateRig) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.t.Context().Done():
	}
}

// put writes a timer that calls back after an interval with an opaque.
func (r *lateRig) put(node int, id string, interval time.Duration, opaque string) answer {
	return r.client.do(http.MethodPut, r.nodes[node].url+"/timers/"+id, timerBody(interval, r.receiver.URL(), opaque))
}

func (r *lateRig) remove(node int, id string) answer {
	return r.client.do(http.MethodDelete, r.nodes[node].url+"/timers/"+id, "")
}

// opaquesOf are the bodies of all callbacks of a key, each once.
func (r *lateRig) opaquesOf(key string) []string {
	seen := make(map[string]bool)
	var all []string
	for _, c := range r.receiver.Calls() {
		if c.Key() == key && !seen[c.Body] {
			seen[c.Body] = true
			all = append(all, c.Body)
		}
	}
	return all
}

// orphaned reports whether a copy of a key lives though the newest record of the key
// is a tombstone.
func (r *lateRig) orphaned(key string) bool {
	r.t.Helper()
	var newest, live scheduler.Version
	for i := range r.shards {
		version, lives := r.copyOn(i, key)
		newest = max(newest, version)
		if lives {
			live = max(live, version)
		}
	}
	return live != 0 && live < newest
}

// holds reports whether a Redis has a live copy of a key.
func (r *lateRig) holds(shard int, key string) bool {
	r.t.Helper()
	_, lives := r.copyOn(shard, key)
	return lives
}

// copyOn is the version of a key's copy on a Redis, 0 if there is none, and whether
// the copy is live.
func (r *lateRig) copyOn(shard int, key string) (version scheduler.Version, lives bool) {
	r.t.Helper()
	for p := range 16 {
		record, err := r.shards[shard].client.HGet(r.t.Context(), "chronos:{http."+twoDigits(p)+"}:timers", key).Result()
		if err != nil {
			continue
		}
		if version, err = scheduler.ParseVersion(record[:16]); err != nil {
			r.t.Fatalf("read the copy of %s: %v", key, err)
		}
		return version, strings.HasSuffix(record, "}")
	}
	return 0, false
}
