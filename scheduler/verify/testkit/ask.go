package testkit

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// Answer is the answer of a server to one request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask sends a request with headers, names and values in turn, and reads the whole answer. A nil
// client stands for a client that gives up after 10 s.
func Ask(client *http.Client, method, url, body string, headers ...string) (got Answer, err error) {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return got, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	if client == nil {
		client = &http.Client{Timeout: 10 * time.Second}
	}
	res, err := client.Do(req)
	if err != nil {
		return got, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	raw, err := io.ReadAll(res.Body)
	return Answer{res.StatusCode, res.Header, string(raw)}, err
}
