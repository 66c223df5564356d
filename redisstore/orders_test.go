package redisstore

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// TestEveryOrder makes the calls of two nodes about one timer with a copy on each of two shards. The calls come in
// every order, late and repeated calls included. Answers and the contents of the two copies are compared with the
// model.
//
// Every sequence of up to 4 calls of the alphabet (orders_calls_test.go) is covered. Sequences that begin with
// putting the timer on the two shards are covered up to 6 calls. A call that needs a lease is part of a sequence
// once the call's node has had a lease; the lease may be long over.
//
// Nothing else is left out. Sequences that lead to the same contents of the shards, the same leases in the nodes'
// hands and the same instant are continued once, since neither side remembers more. A script with the same contents,
// arguments and instant runs once.
func TestEveryOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []string
		calls  int
	}{
		{"of nothing", nil, 4},
		{"of a timer with its copy", []string{"put v1 on a", "put v1 on b"}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			newWalk(t).count(c.calls, c.before...)
		})
	}
}

// walk goes through worlds.
type walk struct {
	*testing.T
	shards   []*testRedis
	stores   []*Store // of each node
	model    *storetest.Model
	views    []store.Store
	alphabet []order
	now      time.Time

	worlds map[string]*world
	ran    map[string]outcomeOfRun
	edges  int
}

// world is all that later answers depend on.
type world struct {
	copies  [2]contents
	hands   [2]hand // of each node
	minutes int
	model   func() // brings the model into the world
	next    []string
	walked  bool
}

// contents is one shard's data of the timer.
type contents struct {
	record, score, lease string
	tags                 string // words "type=sum"
	letters              string // lines of "at_ms letter"
}

// hand is a node's knowledge of the lease that the node got last.
type hand struct {
	holds        bool
	store, model store.Lease
	state        timer.State // as claimed, or as fenced
	nth          int         // which of two counters is in the token
}

// answers are the answers of a call, alike for store and model, and the lease and state for the hand of the call's
// node.
type answers struct {
	all   any
	lease *store.Lease // a new lease
	state *timer.State
}

type outcomeOfRun struct {
	said  answers
	after contents
}

const orderKey = "k"

func newWalk(t *testing.T) *walk {
	t.Helper()
	w := &walk{
		T: t, alphabet: alphabet(), model: storetest.NewModel("a", "b"), now: time.UnixMilli(1_790_000_000_000),
		worlds: map[string]*world{}, ran: map[string]outcomeOfRun{},
	}
	w.model.SetClock(func() time.Time { return w.now })
	for range 2 {
		w.shards = append(w.shards, startMini(t, w.now))
	}
	for n := range 2 {
		w.stores = append(w.stores, openStore(t, fmt.Sprint("node", n+1), "http", w.shards...))
		w.views = append(w.views, w.model.Open(w.stores[n].node))
	}
	return w
}

// count walks all sequences of up to calls calls behind the calls in before, and returns their number.
func (w *walk) count(calls int, before ...string) {
	start := &world{model: w.model.Snapshot()}
	for i := range start.copies {
		start.copies[i].tags = otherTags
	}
	for _, name := range before {
		i := slices.IndexFunc(w.alphabet, func(o order) bool { return o.name == name })
		start = w.step(start, &w.alphabet[i])
		start.model = w.model.Snapshot()
	}
	w.worlds[start.key()] = start
	ways, all := map[string]int{start.key(): 1}, 0
	for range calls {
		further := map[string]int{}
		for key, n := range ways {
			for _, next := range w.from(w.worlds[key]) {
				further[next] += n
				all += n
			}
		}
		ways = further
	}
	w.Logf("%d calls, up to %d in every order: %d sequences through %d states, %d steps compared, %d script calls",
		len(w.alphabet), calls, all, len(w.worlds), w.edges, len(w.ran))
}

// from are the worlds to which the calls lead from a world.
func (w *walk) from(at *world) []string {
	if at.walked {
		return at.next
	}
	at.walked = true
	for i := range w.alphabet {
		o := &w.alphabet[i]
		if o.lease && !at.hands[o.node].holds {
			continue
		}
		to := w.step(at, o)
		key := to.key()
		if w.worlds[key] == nil {
			to.model = w.model.Snapshot()
			w.worlds[key] = to
		}
		at.next = append(at.next, key)
	}
	return at.next
}

func (at *world) key() string {
	hands := ""
	for i := range at.hands {
		h := &at.hands[i]
		hands += fmt.Sprintln(h.holds, h.store, h.state, h.nth)
	}
	return fmt.Sprintf("%q %d %s", at.copies, at.minutes, hands)
}

// step makes one call on store and model.
func (w *walk) step(at *world, o *order) *world {
	to := &world{copies: at.copies, hands: at.hands, minutes: at.minutes}
	if o.do == nil {
		at.model()
		to.minutes++
		return to
	}
	w.edges++
	w.now = time.UnixMilli(1_790_000_000_000).Add(time.Duration(at.minutes) * time.Minute)
	mine, theirs := at.hands[o.node], at.hands[o.node]
	theirs.store = theirs.model
	shard := o.shard(&mine)
	ran := w.run(at, o, &mine, shard)
	at.model()
	said := o.do(w.views[o.node], []string{"a", "b"}[shard], &theirs)
	if !reflect.DeepEqual(said.all, ran.said.all) {
		if diff := cmp.Diff(said.all, ran.said.all, cmpopts.EquateEmpty(), cmpopts.EquateErrors()); diff != "" {
			w.Fatalf("%s on %q:\n%s (-model +store)", o.name, at.key(), diff)
		}
	}
	to.copies[shard] = ran.after
	w.compare(o, at, shard, ran.after)
	if ran.said.lease != nil {
		mine.holds, mine.store, mine.model, mine.nth = true, *ran.said.lease, *said.lease, 1+mine.nth%2
	}
	if ran.said.state != nil {
		mine.state = *ran.said.state
	}
	to.hands[o.node] = mine
	return to
}

// run makes the call on the store, unless an earlier run did.
func (w *walk) run(at *world, o *order, h *hand, shard int) outcomeOfRun {
	key := fmt.Sprintf("%s %d %q %d", o.name, shard, at.copies[shard], at.minutes)
	if o.lease {
		key += fmt.Sprint(h.store, h.state)
	} else if o.leases {
		key += fmt.Sprint(h.nth)
	}
	if known, ok := w.ran[key]; ok {
		return known
	}
	for i, r := range w.shards {
		r.mini.SetTime(w.now)
		for _, s := range w.stores {
			s.shards()[i].Clock.Learn(s.shards()[i].Clock.Now(), w.now.UnixMicro())
		}
		w.plant(i, at.copies[i])
	}
	s := w.stores[o.node]
	s.counter.Store(uint64(h.nth % 2)) // the counter that is not in the present lease
	ran := outcomeOfRun{said: o.do(s, s.Shards()[shard], h), after: w.dig(shard)}
	if other := w.dig(1 - shard); other != at.copies[1-shard] {
		w.Fatalf("%s on shard %d changed the other from %+v to %+v", o.name, shard, at.copies[1-shard], other)
	}
	w.ran[key] = ran
	return ran
}

// compare looks at the copy that the call was about.
func (w *walk) compare(o *order, at *world, shard int, c contents) {
	name := []string{"a", "b"}[shard]
	spots, ask := []store.Spot{{Shard: name, Key: orderKey}}, []store.KeyState{{Key: orderKey}}
	want := w.views[0].Read(w.Context(), spots)[0]
	got := readResult(orderKey, replied(w.now, c.record, c.score, c.lease))
	differences, err := w.views[0].Ask(w.Context(), name, ask)
	firing := time.Duration(0)
	if len(differences) == 1 && err == nil {
		firing = differences[0].Firing
	}
	letters, found := w.model.DeadLetters(name), c.dead(w.T)
	sums, err := w.views[0].Tags(w.Context(), name, 9)
	if diff := cmp.Diff(sums.ByType, c.sums()); diff != "" || err != nil {
		w.Fatalf("after %s on %q, %+v: tags %v:\n%s (-model +store)", o.name, at.key(), c, err, diff)
	}
	survey, err := w.views[0].Survey(w.Context(), name)
	if n := c.tombstones(); n != survey.Tombstones || err != nil {
		w.Fatalf("after %s on %q, %+v: %d tombstones are counted, want %d (%v)", o.name, at.key(), c, n, survey.Tombstones, err)
	}
	if reflect.DeepEqual(want, got) && firing == c.firing(w.now) && len(letters)+len(found) == 0 {
		return // much faster than cmp.Diff
	}
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateErrors()) + cmp.Diff(firing, c.firing(w.now)) +
		cmp.Diff(lastLetters(letters), lastLetters(found))
	if diff != "" {
		w.Fatalf("after %s on %q, %+v:\n%s (-model +store)", o.name, at.key(), c, diff)
	}
}
