package timerservice

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// timingParts are the statements of the API about the times of pops.
func timingParts() []part {
	return []part{
		{"pops after the interval and only once without repeat-for", oneShot},
		{"recurs for the length of repeat-for", recurring("1", "3", time.Second, 3)},
		{"stops when the next pop would be after repeat-for", recurring("2", "5", 2*time.Second, 2)},
		{"pops once with repeat-for equal to the interval", recurring("1", "1", time.Second, 1)},
		{"takes seconds with a zero fraction", recurring("1.0", "2.0", time.Second, 2)},
		{"takes seconds with a fraction", recurring("1.5", "3.2", 1500*time.Millisecond, 2)},
		{"never pops with repeat-for lower than the interval", repeatTooShort("1")},
		{"takes repeat-for of zero as none", recurring("1", "0", time.Second, 1)}, // the API leaves the case open
		{"runs many timers of the same interval", manyTimers},
	}
}

func oneShot(b *bench) {
	_, when := b.create(OneShot("1", b.url+popPath, "once"))
	b.t.Parallel()
	pops := b.popTimes(popPath, when, time.Second, 1)
	b.sequence(pops)
}

// recurring checks the number of pops, and the consecutive sequence numbers.
func recurring(interval, repeatFor Secs, every time.Duration, count int) func(*bench) {
	return func(b *bench) {
		_, when := b.create(Recurring(interval, repeatFor, b.url+popPath, "again"))
		b.t.Parallel()
		pops := b.popTimes(popPath, when, every, count)
		numbers := b.sequence(pops)
		for i := 1; i < len(numbers); i++ {
			if numbers[i] != numbers[i-1]+1 {
				b.t.Errorf("sequence numbers %v do not rise one by one", numbers)
				break
			}
		}
		for _, pop := range pops {
			if string(pop.Body) != "again" {
				b.t.Errorf("body %q, want the same opaque data in each pop", pop.Body)
			}
		}
	}
}

// repeatTooShort allows a refusal and a timer that never pops: the API calls the request a
// logical error of the client, but does not promise a refusal.
func repeatTooShort(repeatFor Secs) func(*bench) {
	return func(b *bench) {
		timer := Recurring("2", repeatFor, b.url+popPath, "never")
		_, when, err := timed(func() (string, error) { return b.client.Create(b.t.Context(), timer) })
		b.t.Parallel()
		if err != nil && !isRefusal(err) {
			b.t.Fatalf("neither set nor refused with a reason: %v", err)
		}
		b.noMoreThan(popPath, 0, when.answered.Add(2*time.Second+lateness))
	}
}

// manyTimers checks that all IDs differ, and that every timer pops with its own data.
func manyTimers(b *bench) {
	const timers = 20
	ids := make(map[string]bool, timers)
	whens := make([]request, 0, timers)
	for i := range timers {
		id, when := b.create(OneShot("2", b.url+popPath+"/"+strconv.Itoa(i), strconv.Itoa(i)))
		ids[id] = true
		whens = append(whens, when)
	}
	b.t.Parallel()
	if len(ids) != timers {
		b.t.Errorf("%d timers have %d IDs", timers, len(ids))
	}
	for i, when := range whens {
		pops := b.popTimes(popPath+"/"+strconv.Itoa(i), when, 2*time.Second, 1)
		if body := string(pops[0].Body); body != strconv.Itoa(i) {
			b.t.Errorf("timer %d popped with the body %q", i, body)
		}
	}
}

// callbackParts are the statements of the API about the callback request.
func callbackParts() []part {
	return []part{
		{"callback is built as described", callbackRequest},
		{"opaque data comes back unchanged", opaqueText},
		{"binary data comes back as Base64", opaqueBinary},
		{"opaque data may be empty", opaqueEmpty},
		{"callback may take part of its two seconds", slowCallback},
		{"callback that takes too long disturbs no other timer", stuckCallback},
		{"failing callback disturbs no other timer", failingCallback},
	}
}

func callbackRequest(b *bench) {
	const query = "?call=7&leg=a%20b"
	const opaque = "some data"
	_, when := b.create(OneShot("1", b.url+popPath+query, opaque))
	b.t.Parallel()
	pop := b.popTimes(popPath, when, time.Second, 1)[0]
	if pop.Method != http.MethodPost || pop.Proto != "HTTP/1.1" {
		b.t.Errorf("callback is a %s in %s, want POST in HTTP/1.1", pop.Method, pop.Proto)
	}
	if pop.URI != popPath+query {
		b.t.Errorf("callback to %q, want %q", pop.URI, popPath+query)
	}
	own, err := url.Parse(b.url)
	if err != nil {
		b.t.Fatalf("parse own address: %v", err)
	}
	if pop.Host != own.Host && pop.Host != own.Hostname() {
		b.t.Errorf("Host %q, want %q with or without the port", pop.Host, own.Host)
	}
	if want := strconv.Itoa(len(opaque)); pop.ContentLength != want {
		b.t.Errorf("Content-Length %q, want %q", pop.ContentLength, want)
	}
	b.sequence([]Pop{pop})
}

func opaqueText(b *bench) {
	texts := []string{
		"plain",
		`{"call": "a-1", "tags": ["<x>", "y & z"]}`,
		"two\r\nlines\tand \"quotes\" \\ backslash\n",
		"Grüße, 時計 ⏰ 😀",
		"  spaces around  ",
		strings.Repeat("long ", 1000),
	}
	whens := make([]request, 0, len(texts))
	for i, text := range texts {
		_, when := b.create(OneShot("1", b.url+popPath+"/"+strconv.Itoa(i), text))
		whens = append(whens, when)
	}
	b.t.Parallel()
	for i, text := range texts {
		pop := b.popTimes(popPath+"/"+strconv.Itoa(i), whens[i], time.Second, 1)[0]
		if string(pop.Body) != text {
			b.t.Errorf("body %q, want %q", pop.Body, text)
		}
		if want := strconv.Itoa(len(text)); pop.ContentLength != want {
			b.t.Errorf("Content-Length %q, want %q", pop.ContentLength, want)
		}
	}
}

func opaqueBinary(b *bench) {
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(i)
	}
	_, when := b.create(OneShot("1", b.url+popPath, base64.StdEncoding.EncodeToString(data)))
	b.t.Parallel()
	pop := b.popTimes(popPath, when, time.Second, 1)[0]
	got, err := base64.StdEncoding.DecodeString(string(pop.Body))
	if err != nil {
		b.t.Fatalf("decode body: %v", err)
	}
	if !bytes.Equal(got, data) {
		b.t.Errorf("decoded body %v, want %v", got, data)
	}
}

func opaqueEmpty(b *bench) {
	_, when := b.create(OneShot("1", b.url+popPath, ""))
	b.t.Parallel()
	pop := b.popTimes(popPath, when, time.Second, 1)[0]
	if len(pop.Body) != 0 || pop.ContentLength != "0" {
		b.t.Errorf("body %q with Content-Length %q, want none of length 0", pop.Body, pop.ContentLength)
	}
}

func slowCallback(b *bench) {
	b.receiver.SetDelay(1500 * time.Millisecond)
	_, when := b.create(OneShot("1", b.url+popPath, "slow"))
	b.t.Parallel()
	b.popTimes(popPath, when, time.Second, 1)
}

// stuckCallback leaves the fate of the timer with the stuck callback open.
func stuckCallback(b *bench) {
	stuck, address := b.listen()
	stuck.SetDelay(3 * time.Second)
	b.create(OneShot("1", address+popPath, "stuck"))
	_, when := b.create(OneShot("2", b.url+popPath, "sound"))
	b.t.Parallel()
	b.popTimes(popPath, when, 2*time.Second, 1)
}

// failingCallback leaves open whether a failed callback is made again.
func failingCallback(b *bench) {
	failing, address := b.listen()
	failing.SetStatus(http.StatusInternalServerError)
	id, first := b.create(Recurring("1", "2", address+popPath, "failing"))
	_, when := b.create(OneShot("2", b.url+popPath, "sound"))
	b.t.Parallel()
	b.waitFor(first.answered.Add(time.Second+lateness), func() bool { return len(failing.Pops(popPath)) > 0 })
	pops := failing.Pops(popPath)
	if len(pops) == 0 {
		b.t.Fatal("the failing callback was never made")
	}
	if slices.ContainsFunc(pops, func(pop Pop) bool { return pop.At.Before(first.sent.Add(time.Second)) }) {
		b.t.Error("the failing callback was made early")
	}
	b.popTimes(popPath, when, 2*time.Second, 1)
	b.remove(id)
}
