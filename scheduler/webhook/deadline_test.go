package webhook_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/webhook"
	"chronos/scheduler/webhook/webhooktest"
)

// inBubble runs an attempt with 2 s against a receiver in memory that does the same as handle, and
// returns the reason and the duration.
func inBubble(t *testing.T, within time.Duration, body string, handle func(net.Conn)) (reason string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		memory := webhooktest.NewMemory()
		var handlers sync.WaitGroup
		handlers.Go(func() {
			for {
				c, err := memory.Accept()
				if err != nil {
					return
				}
				handlers.Go(func() {
					defer func() { _ = c.Close() }()
					handle(c)
				})
			}
		})
		defer handlers.Wait()
		defer func() { _ = memory.Close() }()
		client := webhook.New(webhook.Config{Dial: memory.Dial})
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		d := delivery("http://memory.test/")
		d.Callback.Opaque = body
		start := time.Now()
		reason, took = client.Deliver(ctx, d).Reason, time.Since(start)
	})
	return reason, took
}

// trickle says s again and again, with a pause before every s.
func trickle(c net.Conn, every time.Duration, s string) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for range ticker.C {
		if _, err := io.WriteString(c, s); err != nil {
			return
		}
	}
}

// takeAll reads for ever, in the background: the receiver takes the request.
func takeAll(c net.Conn) { go func() { _, _ = io.Copy(io.Discard, c) }() }

// pause reads nothing for longer than any attempt lasts.
func pause(net.Conn) { <-time.After(time.Minute) }

func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestDeadlineHoldsAtEveryStage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		within time.Duration
		body   string
		handle func(net.Conn)
		reason string
	}{
		{"receiver hangs", 2 * time.Second, "", untilClosed, "no answer within 2 s"},
		{"short deadline", 30 * time.Millisecond, "", untilClosed, "no answer within 30 ms"},
		{"nothing is read", 2 * time.Second, "", pause, "no end of sending within 2 s"},
		{"reading stops", 2 * time.Second, strings.Repeat("x", 1<<20), func(c net.Conn) {
			_, _ = io.CopyN(io.Discard, c, 100_000)
			pause(c)
		}, "no end of sending within 2 s"},
		{"status drips", 2 * time.Second, "", func(c net.Conn) {
			takeAll(c)
			trickle(c, 400*time.Millisecond, "H")
		}, "no answer within 2 s"},
		{"head drips", 2 * time.Second, "", func(c net.Conn) {
			takeAll(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			trickle(c, 100*time.Millisecond, "X: y\r\n")
		}, "no answer within 2 s"},
		{"interim answers drip", 2 * time.Second, "", func(c net.Conn) {
			takeAll(c)
			trickle(c, 700*time.Millisecond, "HTTP/1.1 102 Processing\r\n\r\n")
		}, "no answer within 2 s"},
		{"body drips after 200", 2 * time.Second, "", func(c net.Conn) {
			takeAll(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			trickle(c, 100*time.Millisecond, "x")
		}, ""},
		{"chunks drip after 500", 2 * time.Second, "", func(c net.Conn) {
			takeAll(c)
			_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n")
			trickle(c, 100*time.Millisecond, "1\r\nx\r\n")
		}, "status 500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reason, took := inBubble(t, tt.within, tt.body, tt.handle)
			if reason != tt.reason || took != tt.within {
				t.Errorf("%q after %v, want %q after %v", reason, took, tt.reason, tt.within)
			}
		})
	}
}

func TestAnswerIsBounded(t *testing.T) {
	for _, tt := range []struct{ name, start, again, reason string }{
		{"body without end", "HTTP/1.1 200 OK\r\n\r\n", "xxxxxxxx", ""},
		{"chunks without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "8\r\nxxxxxxxx\r\n", ""},
		{"chunk extensions without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "xxxxxxxx", ""},
		{"head without end", "HTTP/1.1 200 OK\r\n", "X: y\r\n", "answer head over 64 KiB"},
		{"header without end", "HTTP/1.1 200 OK\r\nX: ", "xxxxxxxx", "answer head over 64 KiB"},
		{"status without end", "HTTP/1.1 200 ", "xxxxxxxx", "answer head over 64 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := 0
			reason, took := inBubble(t, 2*time.Second, "", func(c net.Conn) {
				takeAll(c)
				_, _ = io.WriteString(c, tt.start)
				for again := strings.Repeat(tt.again, 100); ; {
					n, err := io.WriteString(c, again)
					if sent += n; err != nil {
						return
					}
				}
			})
			if reason != tt.reason || took != 0 || sent < 1<<10 || sent > 256<<10 {
				t.Errorf("%q after %v and %d bytes, want %q at once", reason, took, sent, tt.reason)
			}
		})
	}
}

func TestNoDeadlineIsBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := webhooktest.NewMemory()
		receiver := webhooktest.Serve(t, memory)
		receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Hang: true} })
		client := webhook.New(webhook.Config{Dial: memory.Dial})
		defer client.Close()
		start := time.Now()
		wantFailed(t, client.Deliver(t.Context(), delivery(receiver.URL())), "no answer within 30 s")
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Run("while waiting", func(t *testing.T) {
		for _, after := range []time.Duration{time.Millisecond, 49 * time.Millisecond, 51 * time.Millisecond, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				memory := webhooktest.NewMemory()
				receiver := webhooktest.Serve(t, memory)
				receiver.Respond(webhooktest.Script(webhooktest.Answer{Hang: true}))
				client := webhook.New(webhook.Config{Dial: memory.Dial})
				defer client.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				time.AfterFunc(after, cancel)
				start := time.Now()
				wantFailed(t, client.Deliver(ctx, delivery(receiver.URL())), "canceled before an answer")
				if took := time.Since(start); took < after || took > after+50*time.Millisecond {
					t.Errorf("canceled after %v, returned after %v", after, took)
				}
				wantDelivered(t, deliver(t, client, delivery(receiver.URL())))
			})
		}
	})
	t.Run("after the end", func(t *testing.T) {
		// The context of an attempt has no say about the next attempt on the same connection.
		synctest.Test(t, func(t *testing.T) {
			memory := webhooktest.NewMemory()
			receiver := webhooktest.Serve(t, memory)
			receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Delay: time.Second} })
			dialed := 0
			client := webhook.New(webhook.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed++
				return memory.Dial(ctx, network, address)
			}})
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			wantDelivered(t, client.Deliver(ctx, delivery(receiver.URL())))
			time.AfterFunc(500*time.Millisecond, cancel)
			wantDelivered(t, client.Deliver(t.Context(), delivery(receiver.URL())))
			if dialed != 1 {
				t.Errorf("dialed %d times", dialed)
			}
		})
	})
	t.Run("before the start", func(t *testing.T) {
		server := serveRaw(t, answering(ok))
		client := newClient(t, webhook.Config{})
		wantDelivered(t, deliver(t, client, delivery(server.url)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantFailed(t, client.Deliver(ctx, delivery(server.url)), "canceled before sending")
		wantDelivered(t, deliver(t, client, delivery(server.url)))
		if requests, conns := len(server.seen()), len(server.conns()); requests != 2 || conns != 1 {
			t.Errorf("%d requests on %d connections, want 2 on 1", requests, conns)
		}
	})
	t.Run("while connecting", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := newClient(t, webhook.Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		wantFailed(t, client.Deliver(ctx, delivery("http://a.test/")), "canceled before connecting")
	})
}

// TestNothingIsSentAfterTheEnd: the last look at the context comes after connecting.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		end          func(context.CancelFunc, context.Context)
	}{
		{"canceled", "canceled before sending", func(cancel context.CancelFunc, _ context.Context) { cancel() }},
		{"deadline", "too late to send after 2 s", func(_ context.CancelFunc, ctx context.Context) { <-ctx.Done() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := webhooktest.NewMemory()
				received := make(chan []byte, 1)
				go func() {
					c, err := memory.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					all, _ := io.ReadAll(c)
					received <- all
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				client := webhook.New(webhook.Config{Dial: func(dialCtx context.Context, network, address string) (net.Conn, error) {
					c, err := memory.Dial(dialCtx, network, address)
					tt.end(cancel, ctx)
					return c, err
				}})
				defer client.Close()
				wantFailed(t, client.Deliver(ctx, delivery("http://memory.test/")), tt.reason)
				if all := <-received; len(all) != 0 {
					t.Errorf("sent: %q", all)
				}
			})
		})
	}
}

func TestConnectingHasTheSameDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := webhook.New(webhook.Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, errors.Join(errors.New("dial"), ctx.Err())
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		wantFailed(t, client.Deliver(ctx, delivery("http://a.test/")), "no connection within 2 s")
	})
	t.Run("TLS", func(t *testing.T) {
		server := serveRaw(t, func(c *rawConn) { _, _ = io.Copy(io.Discard, c) })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		got := newClient(t, webhook.Config{}).Deliver(ctx, delivery("https://"+server.addr))
		if !strings.HasPrefix(got.Reason, "no connection within ") || !strings.HasSuffix(got.Reason, " ms") {
			t.Errorf("got %+v", got)
		}
	})
}

// TestDeadlineOnTheWire: on real connections the deadline comes from the operating system's poller.
func TestDeadlineOnTheWire(t *testing.T) {
	receiver := webhooktest.New(t)
	receiver.Respond(webhooktest.Script(webhooktest.Answer{Hang: true}, webhooktest.Answer{Delay: 120 * time.Millisecond}))
	client := newClient(t, webhook.Config{})
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond)
	defer cancel()
	got := client.Deliver(ctx, delivery(receiver.URL()))
	if took := time.Since(start); !strings.HasPrefix(got.Reason, "no answer within ") || got.Class != dispatch.ClassTimeout || took < 80*time.Millisecond || took > 2*time.Second {
		t.Errorf("%+v after %v", got, took)
	}
	wantDelivered(t, deliver(t, client, delivery(receiver.URL()))) // longer than patience
	wantDelivered(t, deliver(t, client, delivery(receiver.URL()))) // on the same connection
}
