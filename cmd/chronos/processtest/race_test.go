package processtest

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestRacedWrites deletes and updates 5,000 timers within 50 ms of their due time. No callback of
// the old version starts after a clean answer, or later than 2 s after an answer that says in
// flight (promise 5).
func TestRacedWrites(t *testing.T) {
	const (
		count  = 5000
		spread = 10 * time.Second
	)
	store := testkit.StartRedis(t)
	nodes := []*nodeProcess{startNode(t, store.URL), startNode(t, store.URL)}
	receiver := webhooktest.New(t)
	receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		return webhooktest.Answer{Delay: time.Duration(c.Number%10) * 4 * time.Millisecond}
	})
	client := newAPI(t)
	written := make([]answer, count)
	keys := make([]string, count)
	begin := time.Now()
	inParallel(count, 320, func(i int) {
		// A timer is created shortly before it is due, so that some hundred timers always wait.
		<-time.After(time.Until(begin.Add(spread * time.Duration(i) / count)))
		made := client.create(t, nodes[i%2], time.Second/2, receiver.URL()+"/old", "old")
		if made.id.Key == "" {
			return
		}
		keys[i] = made.id.Key
		<-time.After(time.Until(made.due.Add(rand.N(100*time.Millisecond) - 50*time.Millisecond)))
		url := nodes[rand.N(2)].url + "/timers/" + made.id.String()
		if i%2 == 0 {
			written[i] = client.do(http.MethodDelete, url, "")
		} else {
			written[i] = client.do(http.MethodPut, url, timerBody(time.Hour, receiver.URL()+"/new", "new"))
		}
	})
	calls := settle(t, receiver, receiver.Calls())
	last := make(map[string]webhooktest.Call, len(calls))
	for _, c := range calls {
		if c.Target != "/old" || c.Body != "old" {
			t.Errorf("a callback of the new version came, which is due in an hour: %s", c)
		}
		if c.Arrived.After(last[c.Key()].Arrived) {
			last[c.Key()] = c
		}
	}
	inFlight, before, prevented := 0, 0, 0
	for i, w := range written {
		if w.err != nil || (w.status != http.StatusOK && w.status != http.StatusCreated) {
			t.Errorf("write %d: status %d, %v", i, w.status, w.err)
			continue
		}
		call, came := last[keys[i]]
		late := call.Arrived.Sub(w.answered)
		switch {
		case w.inFlight:
			inFlight++
			if came && late > 2*time.Second {
				t.Errorf("%s came %v after an answer that said in flight", call, late)
			}
		case !came:
			prevented++
		default:
			before++
			if late > 0 {
				t.Errorf("%s came %v after an answer that did not say in flight", call, late)
			}
		}
	}
	t.Logf("of %d writes %d found the callback done, %d prevented it, %d found it in flight", count, before, prevented, inFlight)
	if before < count/10 || prevented < count/10 || inFlight < count/50 {
		t.Error("the writes did not race with the callbacks: nothing is proven")
	}
}
