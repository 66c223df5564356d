package wire

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/destinations"
)

// pauseDecoder reads {"destination": …, "until": …} as strictly as Decoder reads timers. Unknown
// members are refused.
type pauseDecoder struct {
	Decoder
	destination string
	until       time.Time
}

// DecodePause reads the body of a request that pauses a destination. The destination is as the client
// has written it.
func DecodePause(body []byte) (destination string, until time.Time, err error) {
	var d pauseDecoder
	err = d.read(body, "send a JSON object with destination and until", []field{
		{"destination", d.readDestination, false}, {"until", d.readUntil, false},
	})
	switch {
	case err != nil:
		return "", time.Time{}, err
	case d.until.IsZero():
		return "", time.Time{}, refuse("/until", "until-missing", "until is missing; give an instant up to 24 hours ahead, such as 2030-01-31T12:00:00Z")
	}
	return d.destination, d.until, nil
}

// DecodeResume reads the body of a request that ends the pause of a destination.
func DecodeResume(body []byte) (destination string, err error) {
	var d pauseDecoder
	err = d.read(body, "send a JSON object with destination", []field{{"destination", d.readDestination, false}})
	return d.destination, err
}

func (d *pauseDecoder) read(body []byte, want string, fields []field) error {
	d.readStrictly(body, 0, len(body))
	if d.blank() {
		return refuse("", "body-missing", "the body is empty; "+want)
	}
	if !d.open(jsontext.KindBeginObject) {
		return refuse("", "body-not-object", "the body is not a JSON object; "+want)
	}
	seen, err := d.members("", fields)
	switch {
	case err != nil:
		return err
	case len(d.ignored) > 0:
		return refuse(d.ignored[0], "member-unknown", "this member, or a member of this object, is unknown; "+want+", and nothing else")
	case seen&1 == 0:
		return refuse("/destination", "destination-missing", "destination is missing; give scheme, host and port of the callbacks, such as https://api.example.com")
	}
	return d.end()
}

func (d *pauseDecoder) readDestination(*Decoder) (err error) {
	d.destination, err = d.str("/destination", "destination-malformed", "destination is not a string; give scheme, host and port of the callbacks, such as https://api.example.com")
	return err
}

func (d *pauseDecoder) readUntil(*Decoder) error {
	const pointer, want = "/until", "until is not an RFC 3339 instant with its offset, such as 2030-01-31T12:00:00Z"
	text, err := d.str(pointer, "until-malformed", want)
	if err != nil {
		return err
	}
	at, ok := ParseInstant(text)
	if !ok || at.IsZero() {
		return refuse(pointer, "until-malformed", want)
	}
	d.until = at
	return nil
}

// PauseView is the answer to a request that pauses a destination, or ends a pause.
type PauseView struct {
	Destination string     `json:"destination"`
	Until       *time.Time `json:"until"` // null after a resume
	// Untold are the Redis instances that could not be told; these hear of the decision later.
	Untold []string `json:"untold"`
}

// ViewPausing makes the view of an operator's decision.
func ViewPausing(p *destinations.Pausing) PauseView {
	v := PauseView{Destination: p.Destination, Untold: append([]string{}, p.Untold...)}
	if !p.Until.IsZero() {
		v.Until = &p.Until
	}
	return v
}

// DestinationView is a destination as the admin listener shows the destination.
type DestinationView struct {
	Destination string     `json:"destination"`
	Limit       *LimitView `json:"limit,omitempty"`
	PausedUntil *time.Time `json:"paused-until,omitempty"`
	InFlight    int        `json:"in-flight"`
}

// LimitView is a limit for all nodes together; a member that says nothing is left out.
type LimitView struct {
	Rate        float64 `json:"rate,omitempty"`
	Burst       int     `json:"burst,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
}

// ViewDestination makes the view of a destination.
func ViewDestination(d *destinations.View) DestinationView {
	v := DestinationView{Destination: d.Destination, InFlight: d.InFlight}
	if d.Limit != (destinations.Limit{}) {
		v.Limit = &LimitView{d.Limit.Rate, d.Limit.Burst, d.Limit.Concurrency}
	}
	if !d.Until.IsZero() {
		v.PausedUntil = &d.Until
	}
	return v
}
