package apitest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Answer is a response whose body is read.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Problem is the body of a refusal.
type Problem struct {
	Title   string  `json:"title"`
	Status  int     `json:"status"`
	Detail  string  `json:"detail"`
	Code    string  `json:"code"`
	Pointer *string `json:"pointer"`
}

// NoPointer stands for a problem without a pointer.
const NoPointer = "none"

// WantProblem checks the common parts of a refusal, and the refusal's code and pointer.
func WantProblem(t testing.TB, a Answer, status int, code, pointer string) {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status %d, want %d; body %s", a.Status, status, a.Body)
	}
	const kind = "application/problem+json"
	if got := a.Header.Get("Content-Type"); got != kind {
		t.Errorf("Content-Type %q, want %q", got, kind)
	}
	p := Parse[Problem](t, a.Body)
	if p.Status != status || p.Title != http.StatusText(status) || p.Code != code {
		t.Errorf("problem %d %q %q, want %d %q %q", p.Status, p.Title, p.Code, status, http.StatusText(status), code)
	}
	switch {
	case p.Pointer == nil && pointer != NoPointer:
		t.Errorf("no pointer, want %q", pointer)
	case p.Pointer != nil && *p.Pointer != pointer:
		t.Errorf("pointer %q, want %q", *p.Pointer, pointer)
	}
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if reason := a.Header.Get("Reason"); reason != p.Detail || reason == "" || strings.ContainsFunc(reason, unprintable) {
		t.Errorf("Reason %q does not repeat the detail %q in one printable line", reason, p.Detail)
	}
}

// WantOverloaded checks a refusal for overload.
func WantOverloaded(t *testing.T, a Answer) {
	t.Helper()
	WantProblem(t, a, http.StatusServiceUnavailable, "overloaded", NoPointer)
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After %q, want whole seconds", a.Header.Get("Retry-After"))
	}
}

// Parse reads JSON that has no members beyond the members of the type.
func Parse[T any](t testing.TB, body []byte) (v T) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("parse answer %q: %v", body, err)
	}
	return v
}

// Samples are the counts of a metric by the values of the metric's labels. Counts of 0 are left
// out.
func Samples(t *testing.T, registry *prometheus.Registry, name string) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() { // in the order of their names
				labels = append(labels, label.GetValue())
			}
			n := int(metric.GetHistogram().GetSampleCount()) + int(metric.GetCounter().GetValue())
			if n > 0 {
				counts[strings.Join(labels, " ")] = n
			}
		}
	}
	return counts
}
