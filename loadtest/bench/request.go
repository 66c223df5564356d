//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chronos/loadtest/bench/role"
)

// uriSize is the length of a callback URI, in bytes.
const uriSize = 46

// callbackURI is the URI of the n-th callback of a receiver, with uriSize bytes.
func callbackURI(base string, n int) string {
	number := fmt.Sprintf("%08d", n)
	fill := max(0, uriSize-len(base)-len("//")-len(number))
	return base + "/" + strings.Repeat("p", fill) + "/" + number
}

// nowhere is the target of timers that are not meant to fire.
const nowhere = "http://127.0.0.1:9000"

// copied is a timer in JSON with the given number of copies. timing is a JSON member such as
// "interval":1.
func copied(timing, uri string, copies int) string {
	return `{"timing":{` + timing + `},"callback":{"http":{"uri":"` + uri + `","opaque":"` + strings.Repeat("x", role.Opaque) +
		`"}},"reliability":{"replication-factor":` + strconv.Itoa(copies) + `}}`
}

func interval(d time.Duration) string {
	return `"interval":` + strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
}

func at(t time.Time) string {
	return `"at":"` + t.UTC().Format("2006-01-02T15:04:05.000Z07:00") + `"`
}

// appendPost appends a whole HTTP request.
func appendPost(buf []byte, path, body string) []byte {
	buf = append(buf, "POST "...)
	buf = append(buf, path...)
	buf = append(buf, " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "...)
	buf = strconv.AppendInt(buf, int64(len(body)), 10)
	buf = append(buf, "\r\n\r\n"...)
	return append(buf, body...)
}

// constant makes the same request each time.
func constant(path, body string) func(int, []byte) []byte {
	request := appendPost(nil, path, body)
	return func(_ int, buf []byte) []byte { return append(buf, request...) }
}

// batch puts timers into the body of a POST /timers/batch.
func batch(timers []string) string {
	return `{"timers":[` + strings.Join(timers, ",") + `]}`
}

// created checks the answer to a batch of n timers.
func created(n int) func(status int, body []byte) error {
	want := `{"created":` + strconv.Itoa(n) + `,`
	return func(status int, body []byte) error {
		if status != http.StatusOK {
			return fmt.Errorf("answered %d: %.200q", status, body)
		}
		if !strings.HasPrefix(string(body), want) {
			return errors.New("the batch was not created whole: " + strconv.Quote(string(body[:min(len(body), 100)])))
		}
		return nil
	}
}
