package webhook

import (
	"strconv"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
)

// appendHead appends the request up to its body; now is the time of sending. The parts that a client
// can choose can't end a line: the target's parts and keys are in ASCII without spaces, and the method
// and the headers are checked wherever a timer comes from.
//
// The opaque is a string of a client's JSON document, and therefore text in UTF-8. Nothing more is
// known: the type JSON would be a guess, and application/octet-stream would deny that the opaque is
// text.
func appendHead(b []byte, t *target, d *dispatch.Delivery, s *signer, now time.Time) []byte {
	c := &d.Callback
	b = append(append(b, c.Verb()...), ' ')
	b = appendResource(b, t.resource)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, t.host...)
	if _, own := c.Headers.Get("User-Agent"); !own {
		b = append(b, "\r\nUser-Agent: chronos"...)
	}
	if c.Opaque != "" || c.HasBody() {
		if _, own := c.Headers.Get("Content-Type"); !own {
			b = append(b, "\r\nContent-Type: text/plain; charset=utf-8"...)
		}
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(c.Opaque)), 10)
	}
	b = append(b, c.Headers...)
	if t.credentials != "" {
		b = append(b, "\r\nAuthorization: Basic "...)
		b = append(b, t.credentials...)
	}
	b = append(b, "\r\nX-Sequence-Number: "...)
	b = strconv.AppendInt(b, int64(d.Seq), 10)
	b = append(b, "\r\nX-Chronos-Timer: "...)
	b = d.ID.Append(b)
	b = append(b, "\r\nX-Chronos-Attempt: "...)
	b = strconv.AppendInt(b, int64(d.Attempt), 10)
	b = append(b, "\r\nX-Chronos-Due: "...)
	b = timer.AppendInstant(b, d.Due)
	if d.LeftOut > 0 {
		b = strconv.AppendInt(append(b, "\r\nX-Chronos-Left-Out: "...), int64(d.LeftOut), 10)
	}
	b = appendStandardWebhook(b, d, s, now)
	return append(b, "\r\n\r\n"...)
}

// appendStandardWebhook appends the headers of standardwebhooks.com. The id is the same for every
// attempt at a pop, so that a receiver can drop a repeat. Every attempt has its own timestamp, and its
// own signature over the id, the timestamp and the body.
func appendStandardWebhook(b []byte, d *dispatch.Delivery, s *signer, now time.Time) []byte {
	b = append(b, "\r\nwebhook-id: "...)
	idStart := len(b)
	b = append(b, d.ID.Key...)
	b = append(b, '.')
	b = d.Version.Append(b)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(d.Seq), 10)
	idEnd := len(b)
	b = append(b, "\r\nwebhook-timestamp: "...)
	timeStart := len(b)
	b = strconv.AppendInt(b, now.Unix(), 10)
	return s.appendHeader(b, b[idStart:idEnd], b[timeStart:], d.Callback.Opaque)
}
