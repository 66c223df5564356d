package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/webhook"
)

// receiverVariable makes the test binary a receiver for the benchmark. The benchmark's own process then
// only spends processor time on the client.
const receiverVariable = "WEBHOOK_BENCHMARK_RECEIVER"

func TestMain(m *testing.M) {
	if os.Getenv(receiverVariable) != "" {
		if err := receive(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// receive gives minimal answers until in ends.
func receive(in io.Reader, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = listener.Close()
	}()
	_, _ = fmt.Fprintln(out, listener.Addr())
	for {
		c, err := listener.Accept()
		if err != nil {
			return nil //nolint:nilerr // in has ended
		}
		go take(c)
	}
}

func take(c net.Conn) {
	const answer = "HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 10:00:00 GMT\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nok"
	defer func() { _ = c.Close() }()
	buf, n := make([]byte, 8192), 0
	for {
		more, err := c.Read(buf[n:])
		if n += more; err != nil {
			return
		}
		head, body, ok := bytes.Cut(buf[:n], []byte("\r\n\r\n"))
		_, length, _ := bytes.Cut(head, []byte("Content-Length: "))
		length, _, _ = bytes.Cut(length, []byte("\r"))
		if want, _ := strconv.Atoi(string(length)); ok && len(body) == want {
			n = 0
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// candidate makes one callback.
type candidate func(ctx context.Context, d dispatch.Delivery) error

func ours() candidate { return oursWith(webhook.Config{}) }

func guarded() candidate {
	guard, err := webhook.ParseGuard("127.0.0.0/8,*.test", "10.0.0.0/8,:22")
	if err != nil {
		panic(err)
	}
	return oursWith(webhook.Config{Guard: guard})
}

func signing(secrets ...string) func() candidate {
	list, err := webhook.ParseSecrets(strings.Join(secrets, ","))
	if err != nil {
		panic(err)
	}
	return func() candidate { return oursWith(webhook.Config{Secrets: list}) }
}

func oursWith(cfg webhook.Config) candidate {
	client := webhook.New(cfg)
	return func(ctx context.Context, d dispatch.Delivery) error {
		if got := client.Deliver(ctx, d); got.Verdict != dispatch.VerdictDelivered {
			return errors.New(got.Reason)
		}
		return nil
	}
}

// netHTTP does with net/http all that comes nearest to ours.
func netHTTP() candidate {
	transport := &http.Transport{
		DisableCompression: true, MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return func(ctx context.Context, d dispatch.Delivery) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Callback.URI, strings.NewReader(d.Callback.Opaque))
		if err != nil {
			return err
		}
		req.Header = http.Header{
			"User-Agent":        {"chronos"},
			"Content-Type":      {"text/plain; charset=utf-8"},
			"X-Sequence-Number": {strconv.Itoa(d.Seq)},
			"X-Chronos-Timer":   {d.ID.String()},
			"X-Chronos-Attempt": {strconv.Itoa(d.Attempt)},
			"X-Chronos-Due":     {d.Due.UTC().Format("2006-01-02T15:04:05.000Z")},
			"Webhook-Id":        {d.ID.Key + "." + d.Version.String() + "." + strconv.Itoa(d.Seq)},
			"Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)},
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); !errors.Is(err, io.EOF) {
			return err
		}
		return wantOK(resp.StatusCode)
	}
}

// fastHTTP does with fasthttp as much as its HostClient can. HostClient knows no cancellation, and does
// not know whether anything was sent on an idle connection that was closed.
func fastHTTP() candidate {
	var mu sync.Mutex
	clients := map[string]*fasthttp.HostClient{}
	return func(ctx context.Context, d dispatch.Delivery) error {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		deadline, _ := ctx.Deadline()
		req.SetTimeout(time.Until(deadline))
		req.SetRequestURI(d.Callback.URI)
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetUserAgent("chronos")
		req.Header.SetContentType("text/plain; charset=utf-8")
		req.Header.Set("X-Sequence-Number", strconv.Itoa(d.Seq))
		req.Header.Set("X-Chronos-Timer", d.ID.String())
		req.Header.Set("X-Chronos-Attempt", strconv.Itoa(d.Attempt))
		req.Header.Set("X-Chronos-Due", d.Due.UTC().Format("2006-01-02T15:04:05.000Z"))
		req.Header.Set("Webhook-Id", d.ID.Key+"."+d.Version.String()+"."+strconv.Itoa(d.Seq))
		req.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
		req.SetBodyString(d.Callback.Opaque)
		address := string(req.Host())
		mu.Lock()
		client := clients[address]
		if client == nil {
			client = &fasthttp.HostClient{
				Addr: address, MaxConns: 4096, MaxIdleConnDuration: 30 * time.Second,
				ReadBufferSize: 16 << 10, MaxResponseBodySize: 64 << 10, DisablePathNormalizing: true,
				MaxIdemponentCallAttempts: 1,
			}
			clients[address] = client
		}
		mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := client.Do(req, resp); err != nil {
			return err
		}
		return wantOK(resp.StatusCode())
	}
}

func wantOK(status int) error {
	if status != http.StatusOK {
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// BenchmarkClients compares the client with possible replacements. The rate is for the whole machine,
// receiver included; cpu-µs/op is for the client's process alone.
func BenchmarkClients(b *testing.B) {
	url := startReceiver(b)
	for _, c := range []struct {
		name string
		make func() candidate
	}{
		{"ours", ours}, {"guarded", guarded}, {"signed", signing(secretOf(32, 1))},
		{"signed-twice", signing(secretOf(32, 1), secretOf(32, 2))}, {"fasthttp", fastHTTP}, {"nethttp", netHTTP},
	} {
		for _, concurrent := range []int64{64, 256, 512} {
			b.Run(fmt.Sprintf("%s/%d", c.name, concurrent), func(b *testing.B) {
				callBack := c.make()
				run(b, callBack, url, concurrent, 10*concurrent) // connects
				b.ReportAllocs()
				b.ResetTimer()
				before := processorTime(b)
				run(b, callBack, url, concurrent, int64(b.N))
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
			})
		}
	}
}

func startReceiver(b *testing.B) (url string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), receiverVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + strings.TrimSpace(address) + "/callback"
}

func run(b *testing.B, callBack candidate, url string, concurrent, total int64) {
	b.Helper()
	var done atomic.Int64
	var workers sync.WaitGroup
	for range concurrent {
		workers.Go(func() {
			d := delivery(url)
			d.ID.Key = "0197b0c5a7c07b1e8f00000000000000"
			d.Callback.Opaque = strings.Repeat("0123456789", 10)
			for done.Add(1) <= total {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				err := callBack(ctx, d)
				cancel()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
