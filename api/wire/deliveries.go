package wire

import (
	"encoding/json"
	"strconv"

	"chronos/scheduler/deliveries"
)

type (
	deliveriesView struct {
		Deliveries []deliveryView `json:"deliveries"`
		Next       string         `json:"next,omitempty"`
		Unreached  []string       `json:"unreached,omitempty"`
		Unreadable int            `json:"unreadable,omitempty"`
	}
	deliveryView struct {
		At          string          `json:"at"`
		Key         string          `json:"key"`
		WebhookID   string          `json:"webhook-id"`
		Sequence    int             `json:"sequence"`
		Attempt     int             `json:"attempt"`
		Due         string          `json:"due"`
		Started     string          `json:"started"`
		Took        json.RawMessage `json:"took"` // in seconds
		OK          bool            `json:"ok"`
		Result      string          `json:"result"`
		Destination string          `json:"destination,omitempty"`
		Node        string          `json:"node"`
		Shard       string          `json:"shard"`
	}
)

// RenderDeliveries is the body of the answer to a request for attempts.
func RenderDeliveries(page *deliveries.Page) ([]byte, error) {
	view := deliveriesView{Deliveries: make([]deliveryView, len(page.Attempts)), Next: page.Next, Unreached: page.Unreached, Unreadable: page.Unreadable}
	for i := range page.Attempts {
		a := &page.Attempts[i]
		view.Deliveries[i] = deliveryView{
			At: formatInstant(a.At), Key: a.Key, WebhookID: a.Key + "." + a.State.Version.String() + "." + strconv.Itoa(a.State.Seq),
			Sequence: a.State.Seq, Attempt: a.State.Attempt, Due: formatInstant(a.Due), Started: formatInstant(a.Started), Took: formatSeconds(a.Took),
			OK: a.OK, Result: a.Result, Destination: a.Destination, Node: a.Node, Shard: a.Shard,
		}
	}
	return marshal(view)
}
