//go:build linux

package machine

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const numbers = " S 1 2 3 4 5 6 7 8 9 10 1234 66 0 0 20 0 5 0 100 200 300"
	for name, test := range map[string]struct {
		text string
		want time.Duration
		bad  bool
	}{
		"plain":               {text: "42 (redis-server)" + numbers, want: 13 * time.Second},
		"parentheses in name": {text: "42 (a) b (c))" + numbers, want: 13 * time.Second},
		"cut off":             {text: "42 (x) S 1 2", bad: true},
		"letters":             {text: "42 (x) S 1 2 3 4 5 6 7 8 9 10 x 66 0", bad: true},
		"empty":               {bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(test.text)
			if (err != nil) != test.bad || got != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestOwnProcess(t *testing.T) {
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	now, peak, err := Memory(os.Getpid())
	if err != nil || now < 1<<20 || peak < now {
		t.Errorf("memory %d, at most %d, %v", now, peak, err)
	}
}
