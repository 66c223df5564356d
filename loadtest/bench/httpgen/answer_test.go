package httpgen

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answer is a parsed answer.
type answer struct {
	Status int
	Body   string
	Close  bool
}

// feedAll gives pieces to a parser, and returns the parsed answers.
func feedAll(p *parser, pieces ...string) (answers []answer, err error) {
	for _, piece := range pieces {
		done, err := p.feed([]byte(piece))
		if err != nil {
			return answers, err
		}
		if done {
			answers = append(answers, answer{p.status, string(p.body), p.close})
		}
	}
	return answers, nil
}

func TestAnswerInAnyPieces(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-LENGTH:  11 \r\n\r\nhello\r\n\r\nyou"
	want := []answer{{Status: 200, Body: "hello\r\n\r\nyo"}}
	const whole = len(text) - 1 // the body is 11 bytes
	var p parser
	for i := 1; i < whole; i++ {
		for j := i; j <= whole; j++ {
			pieces := []string{text[:i], text[i:j], text[j:whole]}
			if j == i || j == whole {
				pieces = []string{text[:i], text[i:whole]}
			}
			got, err := feedAll(&p, pieces...)
			if err != nil {
				t.Fatalf("split at %d and %d: %v", i, j, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("split at %d and %d (-want +got):\n%s", i, j, diff)
			}
		}
	}
}

func TestAnswersOneAfterAnother(t *testing.T) {
	var p parser
	long := strings.Repeat("b", 3*keptBody)
	got, err := feedAll(&p,
		"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 768\r\n\r\n"+long[:10], long[10:700], long[700:],
		"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []answer{{Status: 503, Close: true}, {Status: 200, Body: long[:keptBody]}, {Status: 200, Body: "ok"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnswerThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"no HTTP":           {"SSH-2.0-server\r\n\r\n", errStatusLine},
		"status of letters": {"HTTP/1.1 abc OK\r\n\r\n", errStatusLine},
		"no length":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", errLength},
		"negative length":   {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errLength},
		"length of letters": {"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n", errLength},
		"endless header":    {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader), errHeader},
		"more than asked":   {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", errSurplus},
	} {
		t.Run(name, func(t *testing.T) {
			var p parser
			if _, err := feedAll(&p, test.text); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
