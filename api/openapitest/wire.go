package openapitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Transport makes a RoundTripper that sends through base; a nil base means http.DefaultTransport.
// The RoundTripper fails t if an exchange deviates from the description. The RoundTripper must not
// be used after t has ended.
func Transport(t testing.TB, description []byte, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	return mustLoad(t, description).Transport(t, base)
}

// Callbacks makes a handler that fails t if a request is not a callback as described, and then lets
// next answer. The handler must not be used after t has ended.
func Callbacks(t testing.TB, description []byte, next http.Handler) http.Handler {
	t.Helper()
	return mustLoad(t, description).Callbacks(t, next)
}

func mustLoad(t testing.TB, description []byte) *Description {
	t.Helper()
	d, err := Load(description)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Transport is the function Transport for a loaded description.
func (d *Description) Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{t: t, description: d, base: base}
}

// Callbacks is the function Callbacks for a loaded description.
func (d *Description) Callbacks(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read callback: %v", err)
		}
		if err := d.CheckCallback(r, body); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

type transport struct {
	t           testing.TB
	description *Description
	base        http.RoundTripper
}

// RoundTrip sends a request and reads the whole answer.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Clone(request.Context())
	var asked []byte
	if request.Body != nil {
		var err error
		asked, err = io.ReadAll(request.Body)
		_ = request.Body.Close() // the body was read
		if err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
		sent.Body = io.NopCloser(bytes.NewReader(asked))
		if len(asked) == 0 { // net/http takes any further empty body for a body of unknown length
			sent.Body = http.NoBody
		}
		sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(asked)), nil }
	}
	response, err := t.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	answered, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // the body was read
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(answered))
	exchange := Exchange{Request: request, RequestBody: asked, Response: response, ResponseBody: answered}
	if err := t.description.Check(exchange); err != nil {
		t.t.Errorf("%s %s: %v", request.Method, request.URL.Path, err)
	}
	return response, nil
}
