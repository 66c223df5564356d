package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/client"
	"chronos/scheduler/deliveries"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func (m *memory) Of(_ context.Context, _ timer.ID, q deliveries.Query) (deliveries.Page, error) {
	m.asked = q
	return m.log, m.fails
}

func (m *memory) All(context.Context, deliveries.Query) (deliveries.Page, error) {
	return m.log, m.fails
}

func (m *memory) Last(context.Context, timer.ID) (deliveries.Attempt, bool) {
	if len(m.log.Attempts) == 0 {
		return deliveries.Attempt{}, false
	}
	return m.log.Attempts[0], true
}

func TestDeliveries(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m)
	if _, err := c.Deliveries(t.Context(), "tea", client.DeliveryQuery{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown timer: %v", err)
	}
	_, err := c.Lookup(t.Context(), "tea")
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Last != nil {
		t.Errorf("Lookup of an unknown timer: %v", err)
	}
	m.log = deliveries.Page{
		Attempts: []deliveries.Attempt{{At: epoch, Shard: "a", Attempt: store.Attempt{
			Key: "tea", State: timer.State{Version: 0x123, Seq: 2, Attempt: 3}, Node: "n1", Due: epoch.Add(-time.Minute), Started: epoch.Add(-time.Second),
			Took: 987 * time.Millisecond, OK: true, Result: "status 204", Destination: "http://h:80",
		}}},
		Next: "next", Unreached: []string{"b"}, Unreadable: 1,
	}
	page, err := c.Deliveries(t.Context(), "tea", client.DeliveryQuery{Cursor: "a&b", Limit: 7})
	if err != nil || m.asked != (deliveries.Query{Cursor: "a&b", Limit: 7}) {
		t.Fatalf("%v, asked %+v", err, m.asked)
	}
	want := client.DeliveryPage{
		Deliveries: []client.Delivery{{
			At: epoch, Key: "tea", WebhookID: "tea.0000000000000123.2", Sequence: 2, Attempt: 3, Due: epoch.Add(-time.Minute), Started: epoch.Add(-time.Second),
			Took: 987 * time.Millisecond, OK: true, Result: "status 204", Destination: "http://h:80", Node: "n1", Shard: "a",
		}},
		Next: "next", Unreached: []string{"b"}, Unreadable: 1,
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
	_, err = c.Lookup(t.Context(), "tea")
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok || !errors.Is(err, client.ErrNotFound) || problem.Last == nil || *problem.Last != (client.LastDelivery{Result: "status 204", At: epoch}) {
		t.Errorf("Lookup of an ended timer: %+v", problem)
	}
	m.fails = deliveries.ErrOff
	if _, err = c.Deliveries(t.Context(), "tea", client.DeliveryQuery{}); !errors.As(err, &problem) || problem.Code != "deliveries-off" {
		t.Errorf("without a log: %v", err)
	}
}
