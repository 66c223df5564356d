package webhook

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzAnswer compares with net/http. If net/http can read an answer, the status is the same. If the
// connection is used again, net/http reads the answer up to the same end.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: a\r\n\r\n",
		"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n00\r\n0000000\n\n", // a line that is no trailer
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 503 Busy\nRetry-After: 5\nConnection: keep-alive\nContent-Length: 0\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nX: y\r\n z\r\nConnection: close, x\r\n\r\nbody",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ours := bufio.NewReaderSize(strings.NewReader(s), 128) // so that some lines are longer than the buffer
		got, err := readAnswer(ours)
		if err != nil {
			return
		}
		again := got.finish(ours)
		theirs := bufio.NewReader(strings.NewReader(s))
		resp, err := http.ReadResponse(theirs, &http.Request{Method: http.MethodPost})
		for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			_ = resp.Body.Close()
			resp, err = http.ReadResponse(theirs, &http.Request{Method: http.MethodPost})
		}
		if err != nil {
			if again {
				t.Fatalf("used again, where net/http says %v", err)
			}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != got.status {
			t.Fatalf("status %d, want %d", got.status, resp.StatusCode)
		}
		if !again {
			return
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatalf("used again, where net/http says %v", err)
		}
		if resp.Close {
			t.Fatal("used again, where net/http closes")
		}
		if rest, _ := io.ReadAll(theirs); len(rest) != 0 {
			t.Fatalf("used again, where net/http has %q left", rest)
		}
	})
}
