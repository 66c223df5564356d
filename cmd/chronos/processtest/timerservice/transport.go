package timerservice

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// transportParts cover the habits of HTTP libraries. The API asks for no HTTP version,
// connection handling or content type, so the service must accept all of them.
func transportParts() []part {
	return []part{
		{"serves a client of HTTP 1.0", oldHTTP},
		{"serves a client that closes each connection", closing},
		{"serves a client whatever content type it sends", contentTypes},
		{"serves a client that expects 100 Continue", expecting},
		{"reads JSON in the style of other libraries", otherStyles},
	}
}

// oldHTTP creates, updates and deletes, in requests without a Host. The service must close
// the connections.
func oldHTTP(b *bench) {
	timer := func(path string) string {
		return `{"timing": {"interval": 2}, "callback": {"http": {"uri": "` + b.url + path + `", "opaque": "x"}}}`
	}
	id, err := b.rawHTTP10(http.MethodPost, "/timers", timer("/old")).TimerID()
	if err != nil {
		b.t.Fatalf("create: %v", err)
	}
	_, when, err := timed(func() (string, error) {
		return b.rawHTTP10(http.MethodPut, "/timers/"+id, timer(popPath)).TimerID()
	})
	if err != nil {
		b.t.Fatalf("update: %v", err)
	}
	gone, err := b.rawHTTP10(http.MethodPost, "/timers", timer("/gone")).TimerID()
	if err != nil {
		b.t.Fatalf("create: %v", err)
	}
	if answer := b.rawHTTP10(http.MethodDelete, "/timers/"+gone, ""); answer.Status != http.StatusCreated {
		b.t.Errorf("delete: status %d, want 201", answer.Status)
	}
	if answer := b.rawHTTP10(http.MethodPost, "/timers", "{"); answer.Status != http.StatusBadRequest {
		b.t.Errorf("invalid body: status %d, want 400", answer.Status)
	}
	b.t.Parallel()
	b.popTimes(popPath, when, 2*time.Second, 1)
	b.noMoreThan("/old", 0, time.Now())
	b.noMoreThan("/gone", 0, time.Now())
}

// rawHTTP10 makes a request in HTTP 1.0, and reads until the connection ends.
func (b *bench) rawHTTP10(method, path, body string) Answer {
	b.t.Helper()
	base, err := url.Parse(b.client.Base)
	if err != nil {
		b.t.Fatalf("parse address: %v", err)
	}
	conn, err := (&net.Dialer{Timeout: requestTimeout}).DialContext(b.t.Context(), "tcp", base.Host)
	if err != nil {
		b.t.Fatalf("connect: %v", err)
	}
	defer func() { _ = conn.Close() }() // all was read by then
	if err = conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		b.t.Fatalf("set deadline: %v", err)
	}
	head := method + " " + base.Path + path + " HTTP/1.0\r\n"
	if body != "" {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	if _, err = io.WriteString(conn, head+"\r\n"+body); err != nil {
		b.t.Fatalf("send: %v", err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		b.t.Fatalf("%s %s: the answer does not end with the connection: %v", method, path, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		b.t.Fatalf("%s %s: parse answer: %v", method, path, err)
	}
	if len(resp.TransferEncoding) > 0 {
		b.t.Errorf("%s %s: transfer encoding %q towards HTTP 1.0", method, path, resp.TransferEncoding)
	}
	answer := answerOf(resp)
	if err = resp.Body.Close(); err != nil {
		b.t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	return answer
}

func closing(b *bench) {
	b.client.HTTP.Transport = &http.Transport{DisableKeepAlives: true}
	id, _ := b.create(OneShot("2", b.url+"/old", "x"))
	_, when := b.update(id, OneShot("1", b.url+popPath, "x"))
	gone, _ := b.create(OneShot("2", b.url+"/gone", "x"))
	b.remove(gone)
	b.t.Parallel()
	b.popTimes(popPath, when, time.Second, 1)
	b.noMoreThan("/gone", 0, time.Now().Add(lateness))
	b.noMoreThan("/old", 0, time.Now())
}

// contentTypes tries no content type, and the types that common libraries send by default.
func contentTypes(b *bench) {
	types := []string{"", "application/json; charset=UTF-8", "application/x-www-form-urlencoded", "text/plain"}
	whens := make([]request, 0, len(types))
	for i, contentType := range types {
		b.client.Header = http.Header{}
		if contentType != "" {
			b.client.Header.Set("Content-Type", contentType)
		}
		_, when := b.create(OneShot("1", b.url+popPath+"/"+strconv.Itoa(i), "x"))
		whens = append(whens, when)
	}
	b.t.Parallel()
	for i, when := range whens {
		b.popTimes(popPath+"/"+strconv.Itoa(i), when, time.Second, 1)
	}
}

func expecting(b *bench) {
	b.client.HTTP.Transport = &http.Transport{ExpectContinueTimeout: time.Second}
	b.client.Header.Set("Expect", "100-continue")
	opaque := strings.Repeat("x", 2000)
	_, when := b.create(OneShot("1", b.url+popPath, opaque))
	b.t.Parallel()
	pop := b.popTimes(popPath, when, time.Second, 1)[0]
	if string(pop.Body) != opaque {
		b.t.Errorf("body of %d bytes, want %d", len(pop.Body), len(opaque))
	}
}

// otherStyles uses orders, spaces and escapes that this client doesn't use.
func otherStyles(b *bench) {
	const opaque = "/é😀"
	bodies := []string{
		`{"reliability": {"replication-factor": 1}, "callback": {"http": {"opaque": "\/\u00e9\ud83d\ude00", ` +
			`"uri": %q}}, "timing": {"repeat-for": 1, "interval": 1}}`,
		"{\n\t\"timing\" : {\n\t\t\"interval\" : 1.0\n\t},\r\n\"callback\":{\"http\":{\"uri\":%q,\"opaque\":\"\\/é😀\"}}\n}\n",
	}
	whens := make([]request, 0, len(bodies))
	for i, body := range bodies {
		_, when, err := timed(func() (string, error) {
			uri := b.url + popPath + "/" + strconv.Itoa(i)
			return b.send(http.MethodPost, "/timers", fmt.Sprintf(body, uri)).TimerID()
		})
		if err != nil {
			b.t.Fatalf("create: %v", err)
		}
		whens = append(whens, when)
	}
	b.t.Parallel()
	for i, when := range whens {
		pop := b.popTimes(popPath+"/"+strconv.Itoa(i), when, time.Second, 1)[0]
		if string(pop.Body) != opaque {
			b.t.Errorf("body %q, want %q", pop.Body, opaque)
		}
	}
}
