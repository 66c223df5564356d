package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chronos/api/apitest"
)

// A request that two servers may read in two ways is refused, and the rest of the connection isn't
// read.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	const (
		post    = "POST /timers HTTP/1.1\r\n"
		head    = post + "Host: h\r\n"
		chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	)
	length := strconv.Itoa(len(apitest.Simple))
	for name, tc := range map[string]struct {
		raw    string
		status int
	}{
		"two lengths, the same":       {apitest.WithLength(head + "Content-Length: " + length + "\r\n"), 400},
		"two lengths, different":      {apitest.WithLength(head + "Content-Length: 3\r\n"), 400},
		"two lengths in one":          {head + "Content-Length: " + length + ", " + length + "\r\n\r\n" + apitest.Simple, 400},
		"two encodings":               {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"two encodings in one":        {head + "Transfer-Encoding: chunked, chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"length and encoding":         {apitest.WithLength(head + "Transfer-Encoding: chunked\r\n"), 400},
		"encoding and length":         {head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"encoding in HTTP/1.0":        {"POST /timers HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"encoding identity":           {apitest.WithLength(head + "Transfer-Encoding: identity\r\n"), 400},
		"encoding gzip":               {head + "Transfer-Encoding: gzip\r\n\r\n" + apitest.Simple, 400},
		"encoding gzip, chunked":      {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"encoding xchunked":           {head + "Transfer-Encoding: xchunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"encoding with parameter":     {head + "Transfer-Encoding: chunked;q=1\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"encoding empty":              {head + "Transfer-Encoding:\r\n\r\n" + apitest.Simple, 400},
		"encoding after a tab":        {head + "Transfer-Encoding\t: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"encoding after VT":           {head + "Transfer-Encoding: \vchunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"no host":                     {apitest.WithLength(post), 400},
		"no host, absolute form":      {apitest.WithLength("POST http://h/timers HTTP/1.1\r\n"), 400},
		"empty host":                  {apitest.WithLength(post + "Host:\r\n"), 400},
		"two hosts, the same":         {apitest.WithLength(head + "Host: h\r\n"), 400},
		"two hosts in HTTP/1.0":       {apitest.WithLength("POST /timers HTTP/1.0\r\nHost: h\r\nHost: i\r\n"), 400},
		"LF after the request line":   {apitest.WithLength("POST /timers HTTP/1.1\nHost: h\r\n"), 400},
		"LF after a header":           {apitest.WithLength(post + "Host: h\n"), 400},
		"LF after the last header":    {head + "Content-Length: " + length + "\n\r\n" + apitest.Simple, 400},
		"LF for the empty line":       {head + "Content-Length: " + length + "\r\n\n" + apitest.Simple, 400},
		"LF everywhere":               {strings.ReplaceAll(apitest.WithLength(head), "\r\n", "\n"), 400},
		"LF before the request":       {"\n" + apitest.WithLength(head), 400},
		"two empty lines before":      {"\r\n\r\n" + apitest.WithLength(head), 400},
		"CR alone in a header":        {apitest.WithLength(head + "A: b\rC: d\r\n"), 400},
		"CR alone for a line end":     {apitest.WithLength(head + "A: b\r"), 400},
		"CR CR LF":                    {apitest.WithLength(head + "A: b\r\r\n"), 400},
		"NUL in a header":             {apitest.WithLength(head + "A: b\x00c\r\n"), 400},
		"NUL in a name":               {apitest.WithLength(head + "A\x00: b\r\n"), 400},
		"DEL in a header":             {apitest.WithLength(head + "A: b\x7f\r\n"), 400},
		"folded header":               {apitest.WithLength(head + "A: b\r\n c\r\n"), 400},
		"folded length":               {head + "Content-Length:\r\n " + length + "\r\n\r\n" + apitest.Simple, 400},
		"first header folded":         {apitest.WithLength(post + " A: b\r\nHost: h\r\n"), 400},
		"space before the colon":      {head + "Content-Length : " + length + "\r\n\r\n" + apitest.Simple, 400},
		"space in a name":             {apitest.WithLength(head + "A b: c\r\n"), 400},
		"no name":                     {apitest.WithLength(head + ": c\r\n"), 400},
		"no colon":                    {apitest.WithLength(head + "A\r\n"), 400},
		"non-ASCII name":              {apitest.WithLength(head + "Content-L\u00e9ngth: 3\r\n"), 400},
		"length negative":             {head + "Content-Length: -2\r\n\r\n{}", 400},
		"length plus":                 {head + "Content-Length: +2\r\n\r\n{}", 400},
		"length hexadecimal":          {head + "Content-Length: 0x2\r\n\r\n{}", 400},
		"length with underscore":      {head + "Content-Length: 1_0\r\n\r\n{}", 400},
		"length with fraction":        {head + "Content-Length: 2.0\r\n\r\n{}", 400},
		"length with inner space":     {head + "Content-Length: 1 0\r\n\r\n{}", 400},
		"length empty":                {head + "Content-Length:\r\n\r\n{}", 400},
		"length just over 63 bits":    {head + "Content-Length: 9223372036854775808\r\n\r\n{}", 400},
		"length over 64 bits":         {head + "Content-Length: 18446744073709551618\r\n\r\n{}", 400},
		"length of 63 bits":           {head + "Content-Length: 9223372036854775807\r\n\r\n{}", 413},
		"HTTP/0.9":                    {"GET /timers/k\r\n", 400},
		"HTTP/0.9 by name":            {"GET /timers/k HTTP/0.9\r\nHost: h\r\n\r\n", 400},
		"HTTP/1.2":                    {apitest.WithLength("POST /timers HTTP/1.2\r\nHost: h\r\n"), 400},
		"HTTP/2 preface":              {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"http/1.1":                    {apitest.WithLength("POST /timers http/1.1\r\nHost: h\r\n"), 400},
		"TLS":                         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		"lower-case method":           {apitest.WithLength("post /timers HTTP/1.1\r\nHost: h\r\n"), 400},
		"method with a tab":           {apitest.WithLength("POST\t/timers HTTP/1.1\r\nHost: h\r\n"), 400},
		"two spaces":                  {apitest.WithLength("POST  /timers HTTP/1.1\r\nHost: h\r\n"), 400},
		"space at the end":            {apitest.WithLength("POST /timers HTTP/1.1 \r\nHost: h\r\n"), 400},
		"space before the method":     {apitest.WithLength(" " + head), 400},
		"space in the path":           {apitest.WithLength("POST /tim ers HTTP/1.1\r\nHost: h\r\n"), 400},
		"NUL in the path":             {apitest.WithLength("PUT /timers/a\x00b HTTP/1.1\r\nHost: h\r\n"), 400},
		"CR in the path":              {apitest.WithLength("PUT /timers/a\rb HTTP/1.1\r\nHost: h\r\n"), 400},
		"raw UTF-8 in the path":       {apitest.WithLength("PUT /timers/\u00e9 HTTP/1.1\r\nHost: h\r\n"), 400},
		"no path":                     {apitest.WithLength("POST HTTP/1.1\r\nHost: h\r\n"), 400},
		"relative path":               {apitest.WithLength("POST timers HTTP/1.1\r\nHost: h\r\n"), 400},
		"request line too long":       {"GET /" + strings.Repeat("a", readBuffer) + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
		"a header too long":           {apitest.WithLength(head + "A: " + strings.Repeat("a", readBuffer) + "\r\n"), 431},
		"many bytes of headers":       {apitest.WithLength(head + strings.Repeat("A: "+strings.Repeat("a", 90)+"\r\n", 90)), 431},
		"many headers":                {apitest.WithLength(head + strings.Repeat("A:b\r\n", maxFields)), 431},
		"LF after a chunk's size":     {chunked + strings.Replace(apitest.InChunks(apitest.Simple, 99), "\r\n", "\n", 1) + "\r\n", 400},
		"LF after a chunk":            {chunked + "1\r\n{\n" + apitest.InChunks(apitest.Simple[1:], 99) + "\r\n", 400},
		"LF after the last chunk":     {chunked + strings.TrimSuffix(apitest.InChunks(apitest.Simple, 99), "\r\n") + "\n\r\n", 400},
		"LF for the end":              {chunked + apitest.InChunks(apitest.Simple, 99) + "\n", 400},
		"a chunk too long":            {chunked + "1\r\n{{\r\n0\r\n\r\n", 400},
		"chunk size negative":         {chunked + "-1\r\n{\r\n0\r\n\r\n", 400},
		"chunk size with 0x":          {chunked + "0x1\r\n{\r\n0\r\n\r\n", 400},
		"chunk size empty":            {chunked + "\r\n{\r\n0\r\n\r\n", 400},
		"chunk size with space":       {chunked + "1 \r\n{\r\n0\r\n\r\n", 400},
		"chunk size after space":      {chunked + " 1\r\n{\r\n0\r\n\r\n", 400},
		"chunk size over 64 bits":     {chunked + "10000000000000001\r\n{\r\n0\r\n\r\n", 400},
		"chunk size of 60 bits":       {chunked + "fffffffffffffff\r\n{\r\n0\r\n\r\n", 413},
		"chunk extension with LF":     {chunked + "1;a\nb\r\n{\r\n0\r\n\r\n", 400},
		"chunk extension with CR":     {chunked + "1;a\rb\r\n{\r\n0\r\n\r\n", 400},
		"chunk extension with NUL":    {chunked + "1;a\x00\r\n{\r\n0\r\n\r\n", 400},
		"chunk extension too long":    {chunked + "1;" + strings.Repeat("a", maxChunkLine) + "\r\n{\r\n0\r\n\r\n", 400},
		"chunk extension without end": {chunked + "1;" + strings.Repeat("a", 1<<20), 400},
		"chunk extensions too many":   {chunked + strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\n \r\n", 6) + apitest.InChunks(apitest.Simple, 99) + "\r\n", 400},
		"trailer without a colon":     {chunked + apitest.InChunks(apitest.Simple, 99) + "A\r\n\r\n", 400},
		"trailer without a name":      {chunked + apitest.InChunks(apitest.Simple, 99) + ": b\r\n\r\n", 400},
		"trailer with a folded line":  {chunked + apitest.InChunks(apitest.Simple, 99) + "A: b\r\n c\r\n\r\n", 400},
		"trailer, space before colon": {chunked + apitest.InChunks(apitest.Simple, 99) + "A : b\r\n\r\n", 400},
		"trailer with LF":             {chunked + apitest.InChunks(apitest.Simple, 99) + "A: b\n\r\n", 400},
		"trailer with CR":             {chunked + apitest.InChunks(apitest.Simple, 99) + "A: b\rc\r\n\r\n", 400},
		"trailer with NUL":            {chunked + apitest.InChunks(apitest.Simple, 99) + "A: \x00\r\n\r\n", 400},
		"trailer with a length":       {chunked + apitest.InChunks(apitest.Simple, 99) + "Content-Length: 5\r\n\r\n", 400},
		"trailer with an encoding":    {chunked + apitest.InChunks(apitest.Simple, 99) + "A: b\r\ntransfer-encoding: chunked\r\n\r\n", 400},
		"trailer with a host":         {chunked + apitest.InChunks(apitest.Simple, 99) + "HOST: elsewhere\r\n\r\n", 400},
		"trailer with a token":        {chunked + apitest.InChunks(apitest.Simple, 99) + "Authorization: Bearer x\r\n\r\n", 400},
		"trailers too long":           {chunked + apitest.InChunks(apitest.Simple, 99) + strings.Repeat("A: "+strings.Repeat("b", 90)+"\r\n", maxTrailers/90) + "\r\n", 431},
		"trailer without end":         {chunked + apitest.InChunks(apitest.Simple, 99) + "A: " + strings.Repeat("b", 1<<20), 431},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(Limits{}, nil)
			c := apitest.Dial(t, apitest.Serve(t, s))
			if _, err := io.WriteString(c, tc.raw); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, "DELETE /timers/smuggled HTTP/1.1\r\nHost: h\r\n\r\n") // may be reset by now
			got, closed := apitest.Await(t, c)
			code := map[int]string{400: "request-malformed", 413: "body-too-large", 431: "header-too-large"}[tc.status]
			apitest.WantProblem(t, got, tc.status, code, apitest.NoPointer)
			if !closed {
				t.Error("the connection stays open")
			}
			if n := s.executed.Load(); n != 0 {
				t.Errorf("%d operations were executed", n)
			}
		})
	}
}

// A malformed request on a connection that was used before is refused, too. The malformed line's
// place and the packets' sizes don't matter.
func TestSecondRequestIsRefused(t *testing.T) {
	s := newRig(Limits{}, nil)
	address := apitest.Serve(t, s)
	const good = "DELETE /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, bad := range map[string]string{
		"LF":            "DELETE /timers/k HTTP/1.1\nHost: h\r\n\r\n",
		"version":       "DELETE /timers/k HTTP/2.0\r\nHost: h\r\n\r\n",
		"two spaces":    "DELETE  /timers/k HTTP/1.1\r\nHost: h\r\n\r\n",
		"control":       "DELETE /timers/\x01 HTTP/1.1\r\nHost: h\r\n\r\n",
		"TLS":           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"empty lines":   "\r\n\r\nDELETE /timers/k HTTP/1.1\r\nHost: h\r\n\r\n",
		"header":        "DELETE /timers/k HTTP/1.1\r\nHost: h\r\nA\r\n\r\n",
		"no host":       "DELETE /timers/k HTTP/1.1\r\n\r\n",
		"LF at the end": "DELETE /timers/k HTTP/1.1\r\nHost: h\r\n\n",
	} {
		for how, parts := range map[string][]string{"apart": {good, bad + good}, "together": {good + bad + good}, "in pieces": {good, bad[:1], bad[1:9], bad[9:] + good}} {
			t.Run(name+" "+how, func(t *testing.T) {
				s.executed.Store(0)
				c := apitest.Dial(t, address)
				reader := bufio.NewReader(c)
				var statuses []int
				for i, part := range parts {
					if _, err := io.WriteString(c, part); err != nil && i == 0 {
						t.Fatal(err)
					}
					if i == 0 {
						statuses = append(statuses, apitest.Receive(t, reader).Status)
					}
				}
				statuses = append(statuses, apitest.Receive(t, reader).Status)
				if diff := cmp.Diff([]int{201, 400}, statuses); diff != "" || s.executed.Load() != 1 {
					t.Errorf("%d operations were executed; -want +have:\n%s", s.executed.Load(), diff)
				}
				if _, err := reader.ReadByte(); err != io.EOF {
					t.Errorf("after the refusal have %v, want the end", err)
				}
			})
		}
	}
}

// Unusual but clear requests are accepted, and the connection goes on.
func TestUnusualRequestsAreTaken(t *testing.T) {
	const head = "POST /timers HTTP/1.1\r\nHost: h\r\n"
	large := apitest.WithMore(`"a":"` + strings.Repeat("x", 100_000) + `"`)
	c := apitest.Dial(t, apitest.Serve(t, newRig(Limits{}, nil)))
	for name, raw := range map[string]string{
		"empty line before":         "\r\n" + apitest.WithLength(head),
		"length with zeros":         head + "Content-Length: 000" + strconv.Itoa(len(apitest.Simple)) + "\r\n\r\n" + apitest.Simple,
		"length between spaces":     head + "Content-Length: \t " + strconv.Itoa(len(apitest.Simple)) + " \t\r\n\r\n" + apitest.Simple,
		"CHUNKED":                   head + "transfer-encoding: CHUNKED\r\n\r\n" + apitest.InChunks(apitest.Simple, 7) + "\r\n",
		"chunks of one byte":        head + "Transfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 1) + "\r\n",
		"chunk size with zeros":     head + "Transfer-Encoding: chunked\r\n\r\n0000" + apitest.InChunks(apitest.Simple, 999) + "\r\n",
		"chunk extension":           head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Replace(apitest.InChunks(apitest.Simple, 999), "\r\n", ";a=\"b\";c\r\n", 1) + "\r\n",
		"a trailer":                 head + "Transfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n" + apitest.InChunks(apitest.Simple, 999) + "Digest: sha-256=x\r\n\r\n",
		"trailers":                  head + "Transfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 7) + "A:b\r\nX-Checksum: \t" + strings.Repeat("c", maxChunkLine) + "\r\nE:\r\n\r\n",
		"large body":                head + "Content-Length: " + strconv.Itoa(len(large)) + "\r\n\r\n" + large,
		"large body in chunks":      head + "Transfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(large, 3000) + "\r\n",
		"absolute form, other host": apitest.WithLength("POST http://elsewhere:1/timers HTTP/1.1\r\nHost: h\r\n"),
		"host with non-ASCII value": apitest.WithLength(head + "A: \u00e9\r\n"),
		"an unknown expectation":    apitest.WithLength(head + "Expect: the-unexpected\r\n"),
		"many headers":              apitest.WithLength(head + strings.Repeat("A:b\r\n", maxFields-2)),
	} {
		got, closed := apitest.Send(t, c, raw)
		if got.Status != http.StatusOK || closed {
			t.Errorf("%s: have %d, closed %v: %s", name, got.Status, closed, got.Body)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	const head = "POST /timers HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
	large := apitest.WithMore(`"a":"` + strings.Repeat("x", 100_000) + `"`)
	c := apitest.Dial(t, apitest.Serve(t, newRig(Limits{}, nil)))
	reader := bufio.NewReader(c)
	exchange := func(name, raw string, want int) {
		t.Helper()
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		if got := apitest.Receive(t, reader); got.Status != want {
			t.Fatalf("%s: have %d, want %d: %s", name, got.Status, want, got.Body)
		}
	}
	for name, body := range map[string]string{"small": apitest.Simple, "large": large} {
		exchange(name, head+"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n", 100)
		exchange(name, body, 200)
		exchange(name+" in chunks", head+"Transfer-Encoding: chunked\r\n\r\n", 100)
		exchange(name+" in chunks", apitest.InChunks(body, 5000)+"\r\n", 200)
		exchange(name+" at once", head+"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body, 200)
	}
	exchange("to HTTP/1.0", strings.Replace(head, "1.1", "1.0", 1)+"Connection: keep-alive\r\nContent-Length: "+strconv.Itoa(len(apitest.Simple))+"\r\n\r\n"+apitest.Simple, 200)
	exchange("no body", "GET /timers/k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n", 404)
	exchange("too large", head+"Content-Length: 1048577\r\n\r\n", 413)
}

// scripted is a connection on which all bytes have been sent already, in pieces.
type scripted struct {
	net.Conn
	pieces [][]byte
	sent   bytes.Buffer
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error)      { return c.sent.Write(p) }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// The way in which requests are cut into packets and read doesn't change the bytes that are handed
// over. The budget is whole again afterwards.
func TestReadingDoesNotDependOnPackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var raw, want strings.Builder
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			body := strings.Repeat("b\r\n", rapid.SampledFrom([]int{0, 1, 100, 2700, 2800, 9000}).Draw(t, "length")/3)
			const head = "PUT /timers/k HTTP/1.1\r\nHost: h\r\n"
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				one := head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
				raw.WriteString(one)
				want.WriteString(one)
			case 1:
				trailers := rapid.SampledFrom([]string{"", "A: b\r\n", "A:\r\nDigest: " + strings.Repeat("d", 300) + "\r\n"}).Draw(t, "trailers")
				raw.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(body, rapid.IntRange(1, 4000).Draw(t, "chunk")) + trailers + "\r\n")
				want.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n")
				if body != "" {
					fmt.Fprintf(&want, "%08x\r\n%s\r\n", len(body), body)
				}
				want.WriteString("0\r\n\r\n")
			default:
				raw.WriteString("GET / HTTP/1.0\r\n\r\n")
				want.WriteString("GET / HTTP/1.0\r\n\r\n")
			}
		}
		s := newRig(Limits{}, nil)
		inner := &scripted{}
		for rest := []byte(raw.String()); len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 2, 7, 300, 5000, 100_000}).Draw(t, "piece"))
			inner.pieces = append(inner.pieces, rest[:n])
			rest = rest[n:]
		}
		c := &conn{Conn: inner, server: s.Server}
		var have []byte
		for {
			p := make([]byte, rapid.SampledFrom([]int{1, 100, readBuffer, 100_000}).Draw(t, "read"))
			n, err := c.Read(p)
			have = append(have, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("read %d bytes and %v", n, err)
			}
		}
		if diff := cmp.Diff(want.String(), string(have)); diff != "" {
			t.Fatalf("-want +have:\n%s", diff)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if n := s.budget.used.Load(); n != 0 {
			t.Fatalf("%d bytes of the budget are missing", n)
		}
	})
}

// Every request pays for the look at its headers.
func TestLookingForCallbacksDoesNotAllocate(t *testing.T) {
	fields := [][]byte{[]byte("Host: timers.example.com:7253"), []byte("X-Chronos-Times: 1"), []byte("Webhook-No: 1"), []byte("Content-Length: 12")}
	n := testing.AllocsPerRun(1000, func() {
		var h head
		for _, field := range fields {
			if err := h.field(field); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
