package api

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api/apitest"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := New(Config{Timers: &fakeTimers{}, Registerer: registry})
	for _, request := range [][2]string{
		{"POST", "/timers"}, {"PUT", "/timers/k"}, {"PUT", "/timers/k"}, {"PATCH", "/timers/k"}, {"PATCH", "/timers/none"}, {"PATCH", "/timers"}, {"GET", "/timers/k"}, {"GET", "/timers/none"},
		{"POST", "/timers/batch"}, {"GET", "/timers/batch"}, {"DELETE", "/timers/batch"}, {"DELETE", "/timers/k"}, {"BREW", "/timers/k"}, {"GET", "/timers"}, {"PUT", "/timers"}, {"DELETE", "/timers/references"}, {"GET", "/elsewhere"}, {"BREW", "/elsewhere"},
	} {
		ask(t, s, request[0], request[1], apitest.Simple)
	}
	have := apitest.Samples(t, registry, "chronos_api_request_duration_seconds")
	for labels, want := range map[string]int{
		"2xx POST /timers": 1, "2xx PUT /timers/{id}": 2, "2xx PATCH /timers/{id}": 1, "4xx PATCH /timers/{id}": 1, "2xx GET /timers/{id}": 1, "4xx GET /timers/{id}": 1,
		"2xx DELETE /timers/{id}": 1, "4xx other /timers/{id}": 1, "4xx GET /timers": 1, "4xx other /timers": 2, "4xx DELETE /timers/references": 1, "4xx POST /timers/batch": 1, "4xx other /timers/batch": 2, "4xx other other": 2,
	} {
		if have[labels] != want {
			t.Errorf("%s: have %d, want %d", labels, have[labels], want)
		}
		delete(have, labels)
	}
	if len(have) != 0 {
		t.Errorf("counted too: %v", have)
	}
}
