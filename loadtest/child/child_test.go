package child

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestProcessEnds(t *testing.T) {
	for _, test := range []struct {
		name, script string
		wrong        bool
	}{
		{"by itself", "exit 0", false},
		{"with an error", "exit 3", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := Start(t.Context(), "script", t.TempDir(), nil, "/bin/sh", "-c", test.script)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(t.Context()); (err != nil) != test.wrong {
				t.Errorf("wait = %v", err)
			}
			if err := p.Stop(); (err != nil) != test.wrong {
				t.Errorf("stop = %v", err)
			}
		})
	}
}

func TestStoppedProcessMayEndWell(t *testing.T) {
	p, err := Start(t.Context(), "script", t.TempDir(), nil,
		"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done")
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("wait = %v", err)
	}
	// The trap may not be set yet. Then the signal ends the script, and the error names the signal.
	if err := p.Stop(); err != nil && !strings.Contains(err.Error(), "script ended: signal: terminated") {
		t.Errorf("stop = %v", err)
	}
}

func TestReadyFailsWithTheProgram(t *testing.T) {
	p, err := Start(t.Context(), "script", t.TempDir(), nil, "/bin/sh", "-c", "exit 3")
	if err != nil {
		t.Fatal(err)
	}
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Until(t.Context(), Answers("http://"+address)); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ready = %v", err)
	}
}
