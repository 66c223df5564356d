package role

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valyala/fasthttp"
)

func TestNumber(t *testing.T) {
	for path, want := range map[string]int{
		"/7": 7, "/ppp/00000012": 12, "/a/b/999999999": 999_999_999,
		"/": -1, "/ppp/": -1, "/12x": -1, "/-1": -1, "/1234567890": -1, "": -1,
	} {
		n, ok := number([]byte(path))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q has number %d, want %d", path, n, want)
		}
	}
}

// arrive makes a callback come with a due time; "" for no due time.
func arrive(s *sink, path, due string, slow bool) {
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI(path)
	if due != "" {
		ctx.Request.Header.Set(dueHeader, due)
	}
	s.arrive(&ctx, slow)
}

func TestReport(t *testing.T) {
	s := &sink{}
	s.round.Store(&round{callbacks: make([]callback, 6)})
	past := time.Now().Add(-time.Hour).UTC().Format(rfcMilli)
	future := time.Now().Add(time.Hour).UTC().Format(rfcMilli)
	arrive(s, "/p/0", past, false)
	arrive(s, "/p/0", past, false) // again
	arrive(s, "/p/1", past, true)
	arrive(s, "/p/2", future, false)
	arrive(s, "/p/3", "", false)
	arrive(s, "/p/4", "yesterday", false)
	arrive(s, "/p/6", past, false) // no expected number
	arrive(s, "/p/x", past, false)

	got := s.round.Load().report()
	want := &Report{Expected: 6, Missing: 1, Doubled: 1, Early: 1, Unknown: 2, Undated: 2, Fast: Lateness{Count: 4}, Slow: Lateness{Count: 1}}
	figures := cmp.Options{
		cmpopts.IgnoreFields(Report{}, "FirstMs", "SpanMs", "Span99Ms"),
		cmpopts.IgnoreFields(Lateness{}, "P50Ms", "P99Ms", "P999Ms", "MaxMs"),
	}
	if diff := cmp.Diff(want, got, figures); diff != "" {
		t.Error(diff)
	}
	if got.Slow.P50Ms < 3.6e6 || got.Slow.P50Ms > 3.7e6 {
		t.Errorf("late by %v ms, want an hour", got.Slow.P50Ms)
	}
	if got.Wrong() == nil {
		t.Error("nothing is wrong with it")
	}
	if err := (&Report{Expected: 3}).Wrong(); err != nil {
		t.Errorf("all came, but %v", err)
	}
}

func TestSinkAndClientsOverTheWire(t *testing.T) {
	addresses := make([]string, 2)
	for i := range addresses {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = listener.Addr().String()
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := runSink(ctx, options{listen: addresses[0], slow: addresses[1]})
		ended <- err
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	const n = 50
	url := "http://" + addresses[0]
	ask(t, url+fmt.Sprintf("/control/expect?n=%d", 2*n))
	for i, client := range []string{"fasthttp", "nethttp"} {
		said, err := runBare(t.Context(), options{client: client, url: url + fmt.Sprintf("/%d", i), n: n, goroutines: 4})
		took, ok := said.(*Took)
		if err != nil || !ok || took.Done != n || took.Failed != 0 {
			t.Fatalf("%s: %+v, %v", client, said, err)
		}
	}
	var report Report
	if err := json.Unmarshal(ask(t, url+"/control/report"), &report); err != nil {
		t.Fatal(err)
	}
	if report.Expected != 2*n || report.Missing != n || report.Doubled != n {
		t.Errorf("two clients called the same %d: %+v", n, report)
	}
}

// ask repeats a GET until the server answers: the server may be starting.
func ask(t *testing.T, url string) []byte {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		status, body, err := fasthttp.Get(nil, url)
		if err == nil && status == fasthttp.StatusOK {
			return body
		}
		select {
		case <-again.C:
		case <-limit.C:
			t.Fatalf("ask %s: %d, %v", url, status, err)
		}
	}
}

func TestParallel(t *testing.T) {
	errOdd := errors.New("odd")
	took := parallel(t.Context(), 100, 7, 0, func(i int) error {
		if i%2 == 1 {
			return errOdd
		}
		return nil
	})
	if took.Done != 50 || took.Failed != 50 || took.Why != "odd" {
		t.Errorf("got %+v", took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if took := parallel(ended, 100, 7, 1, func(int) error { return nil }); took.Done > 7 {
		t.Errorf("went on after the end: %+v", took)
	}
}
