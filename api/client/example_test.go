package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"chronos/api/client"
)

const receipt = `{"id":"tea-2-2010000000000040","key":"tea","due":"2026-11-21T02:22:48.508Z","copies":2}`

// fakeNode answers a few requests as a node would.
func fakeNode() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /timers/tea", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/timers/tea-2-2010000000000040")
		_, _ = io.WriteString(w, receipt)
	})
	mux.HandleFunc("DELETE /timers/tea", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("GET /timers/tea", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"title":"Not Found","status":404,"detail":"there is no such timer","code":"timer-not-found"}`)
	})
	return httptest.NewServer(mux)
}

func Example() {
	node := fakeNode()
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	timers, err := client.New(node.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer timers.Close()

	receipt, err := timers.Replace(ctx, "tea", client.Timer{
		Interval: 10 * time.Minute,
		URI:      "http://127.0.0.1:9000/hello",
		Opaque:   "tea is ready",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(receipt.Key, "is due at", receipt.Due.Format(time.TimeOnly), "and kept", receipt.Copies, "times")

	if _, err := timers.Delete(ctx, receipt.ID[:3]); err != nil {
		fmt.Println(err)
	}
	if _, err := timers.Lookup(ctx, "tea"); errors.Is(err, client.ErrNotFound) {
		fmt.Println("it is gone")
	}
	// Output:
	// tea is due at 02:22:48 and kept 2 times
	// it is gone
}

// ExampleClient_Patch sets a header, removes a header and goes back to the default timeout. The timer goes
// on as before.
func ExampleClient_Patch() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		patch, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s\n", r.Method, patch)
		_, _ = io.WriteString(w, receipt)
	}))
	defer node.Close()
	timers, err := client.New(node.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer timers.Close()

	receipt, err := timers.Patch(context.Background(), "tea", client.Change{
		Headers: map[string]*string{"Authorization": new("Bearer 2YotnFZFEjr1zCsicMWpAA"), "X-Trace": nil},
		Timeout: new(time.Duration(0)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(receipt.Key, "is due at", receipt.Due.Format(time.TimeOnly))
	// Output:
	// PATCH {"callback":{"http":{"headers":{"Authorization":"Bearer 2YotnFZFEjr1zCsicMWpAA","X-Trace":null},"timeout":null}}}
	// tea is due at 02:22:48
}

func ExampleParseCallback() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callback, err := client.ParseCallback(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Printf("%s, pop %d: %s\n", callback.Key, callback.Sequence, callback.Body)
		w.WriteHeader(http.StatusNoContent) // the pop is done
	})
	handler.ServeHTTP(httptest.NewRecorder(), popped())
	// Output:
	// tea, pop 1: tea is ready
}
