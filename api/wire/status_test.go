package wire

import (
	"math"
	"testing"
	"time"
)

// JSON has no infinity, and a share of nothing is no number.
func TestFiguresFitIntoJSON(t *testing.T) {
	for have, want := range map[float64]float64{1.0 / 3: 0.33, 503.2: 503.2, math.Inf(1): 0, math.Inf(-1): 0, 0: 0} {
		if got := figure(have); got != want {
			t.Errorf("figure(%v) is %v, want %v", have, got, want)
		}
	}
	if got := figure(math.NaN()); got != 0 {
		t.Errorf("figure(NaN) is %v", got)
	}
	if got := milliseconds(-1500 * time.Microsecond); got != -1.5 {
		t.Errorf("have %v ms", got)
	}
	if got := seconds(1500 * time.Millisecond); got != 1.5 {
		t.Errorf("have %v s", got)
	}
}

// A text of another process has neither users nor characters that a terminal obeys.
func TestShownTexts(t *testing.T) {
	for text, want := range map[string]string{
		"dial redis://u:hush@h:6379": "dial redis://***@h:6379", "rediss+cluster://:hush@h": "rediss+cluster://***@h", "http://u@h/ http://v@i/": "http://***@h/ http://***@i/",
		"\x1b[2J\u202e": "?[2J?", "": "",
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
