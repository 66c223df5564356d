package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

func (d *Decoder) callback() error {
	const pointer = "/callback"
	if !d.open(jsontext.KindBeginObject) {
		return d.mistyped(pointer, "callback-type", "callback is not an object; give one with http")
	}
	for first := true; ; first = false {
		kind, ok, err := d.member(pointer)
		switch {
		case err != nil:
			return err
		case !ok && first:
			return refuse(pointer, "callback-kind", "callback is empty; give exactly one kind of callback: http")
		case !ok:
			return nil
		case kind.String() != "http":
			return refuse(pointer, "callback-kind", "callback has an unknown kind; give exactly one kind of callback: http")
		case !first:
			return duplicate(pointer + "/http")
		}
		if err := d.http(); err != nil {
			return err
		}
	}
}

func (d *Decoder) http() error {
	_, err := d.object("/callback/http", "callback-http-type", "http is not an object; give one with uri", []field{
		{"uri", func(d *Decoder) (err error) {
			d.timer.Callback.URI, err = d.str("/callback/http/uri", "uri-type", "uri is not a string; give the absolute http or https URL to call")
			return err
		}, false},
		{"opaque", func(d *Decoder) (err error) {
			d.timer.Callback.Opaque, err = d.str("/callback/http/opaque", "opaque-type", "opaque is not a string; give the callback's body as one, or leave it out")
			return err
		}, true},
		{"method", func(d *Decoder) (err error) {
			const pointer = "/callback/http/method"
			d.timer.Callback.Method, err = d.str(pointer, "method-unknown", "method is not a string; give POST, PUT, PATCH, DELETE or GET, or leave it out")
			if err == nil && d.timer.Callback.Method == "" {
				err = refuse(pointer, "method-unknown", "method is empty; give POST, PUT, PATCH, DELETE or GET, or leave it out")
			}
			return err
		}, true},
		{"headers", (*Decoder).headers, true},
		{"timeout", func(d *Decoder) (err error) {
			d.timer.Callback.Timeout, err = d.secondsFrom(timer.MinTimeout, timer.TimeoutRange())
			return err
		}, true},
		{"retry", (*Decoder).retry, true},
	})
	return err
}

const headersPointer = "/callback/http/headers"

func (d *Decoder) headers() error {
	if !d.open(jsontext.KindBeginObject) {
		return d.mistyped(headersPointer, "headers-type", "headers is not an object; give one with a string for each header, or leave it out")
	}
	for {
		token, ok, err := d.member(headersPointer)
		if !ok || err != nil {
			return err
		}
		name := token.String()
		value, err := d.str(timer.HeaderPointer(name), "headers-type", "the value of a header is not a string; give a string for each header")
		if err != nil {
			return err
		}
		with, refusal := d.timer.Callback.Headers.With(name, value)
		if refusal != nil {
			return refusal
		}
		d.timer.Callback.Headers = with
	}
}

func (d *Decoder) retry() error {
	_, err := d.object("/callback/http/retry", "retry-range", "retry is not an object; give one with attempts, first, factor and longest, or leave it out", []field{
		{"attempts", func(d *Decoder) error {
			refusal := timer.AttemptsRange()
			n, ok, err := d.whole(refusal.Pointer, timer.MaxAttempts)
			switch {
			case err != nil:
				return err
			case !ok:
				return d.mistyped(refusal.Pointer, refusal.Code, refusal.Detail)
			case n == 0:
				return refusal
			}
			d.timer.Callback.Retry.Attempts = n
			return nil
		}, true},
		{"first", func(d *Decoder) (err error) {
			d.timer.Callback.Retry.First, err = d.secondsFrom(timer.MinRetry, timer.FirstRange())
			return err
		}, true},
		{"factor", func(d *Decoder) error {
			n, err := d.thousandths(1000, timer.FactorRange())
			d.timer.Callback.Retry.Factor = float64(n) / 1000
			return err
		}, true},
		{"longest", func(d *Decoder) (err error) {
			d.timer.Callback.Retry.Longest, err = d.secondsFrom(timer.MinRetry, timer.LongestRange())
			return err
		}, true},
	})
	return err
}
