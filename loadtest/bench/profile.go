//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/loadtest/bench/machine"
)

// How the profiles of a phase are taken.
const (
	profileAfter   = time.Second
	profileSpan    = 4 * time.Second
	profileTimeout = 30 * time.Second
	profiledBurst  = 2 * burstSize // takes longer than a profile
	profileRows    = 45
)

// phase is a load under which profiles are taken.
type phase struct {
	name string
	load on
}

func phases() []phase {
	return []phase{{"create", createClosed}, {"fire", burst(profiledBurst, false)}}
}

// kinds maps the name of a profile at the node to flags for pprof.
func kinds() map[string][]string {
	return map[string][]string{"profile": nil, "allocs": {"-sample_index=alloc_space"}}
}

// profile writes text summaries of the node's profiles into the results: while the node creates,
// and while the node fires. Each summary includes what Redis reports about commands.
func (b *bench) profile(ctx context.Context) error {
	folder := filepath.Join(b.root, "loadtest", "results")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write profiles: %w", err)
	}
	for _, p := range phases() {
		for kind, flags := range kinds() {
			_, _ = fmt.Fprintf(b.stderr, "profile: %s, %s\n", p.name, kind)
			summary, err := b.profileOne(ctx, p, kind, flags)
			if err != nil {
				return err
			}
			file := filepath.Join(folder, "profile-"+p.name+"-"+strings.ReplaceAll(kind, "profile", "cpu")+".txt")
			if err := os.WriteFile(file, summary, 0o644); err != nil { //nolint:gosec // for everyone to read
				return fmt.Errorf("write profiles: %w", err)
			}
		}
	}
	return nil
}

func (b *bench) profileOne(ctx context.Context, p phase, kind string, flags []string) (summary []byte, err error) {
	s, err := b.start(ctx, twoCopies())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	file := filepath.Join(b.dir, p.name+"-"+kind)
	var taking sync.WaitGroup
	var takeErr error
	begin := func() { taking.Go(func() { takeErr = takeProfile(ctx, s, kind, file) }) }
	if p.name == "create" {
		begin()
		err = p.load(ctx, b, s, func(string, float64) {})
	} else {
		err = b.whileFiring(ctx, s, p.load, begin)
	}
	taking.Wait()
	if err := errors.Join(err, takeErr); err != nil {
		return nil, err
	}
	text, err := b.summarize(ctx, file, flags)
	if err != nil {
		return nil, err
	}
	stats, err := s.shards[0].Client.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, fmt.Errorf("read what Redis did: %w", err)
	}
	return append(text, commands(stats)...), nil
}

// whileFiring runs load, and calls begin when the first callback has come.
func (b *bench) whileFiring(ctx context.Context, s *stack, load on, begin func()) error {
	done, loaded := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		loaded = load(ctx, b, s, func(string, float64) {})
	}()
	begun := false
	for {
		select {
		case <-done:
			if loaded == nil && !begun {
				loaded = errors.New("profile: the burst was over too soon")
			}
			return loaded
		case <-time.After(20 * time.Millisecond):
			if begun {
				continue
			}
			if fired, err := counted(ctx, s, `chronos_fired_total{result="delivered"}`); err == nil && fired > 0 {
				begun = true
				begin()
			}
		}
	}
}

// counted reads a counter of the node.
func counted(ctx context.Context, s *stack, name string) (value float64, err error) {
	text, err := get(ctx, s.nodes[0], "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if figure, found := strings.CutPrefix(line, name+" "); found {
			_, err := fmt.Sscan(figure, &value)
			return value, err
		}
	}
	return 0, nil
}

func takeProfile(ctx context.Context, s *stack, kind, file string) error {
	if err := pause(ctx, profileAfter); err != nil {
		return err
	}
	body, err := get(ctx, s.nodes[0], fmt.Sprintf("/debug/pprof/%s?seconds=%d", kind, int(profileSpan.Seconds())))
	if err != nil {
		return fmt.Errorf("take profile: %w", err)
	}
	return os.WriteFile(file, body, 0o600)
}

func get(ctx context.Context, node *machine.Node, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	defer cancel()
	response, err := node.Ask(ctx, http.MethodGet, path, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %d", response.StatusCode)
	}
	return body, err
}

// summarize returns the tables of pprof: by own cost, and by cumulative cost.
func (b *bench) summarize(ctx context.Context, file string, flags []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	defer cancel()
	var text bytes.Buffer
	for _, order := range []string{"-flat", "-cum"} {
		args := slices.Concat([]string{"tool", "pprof", "-top", order, fmt.Sprintf("-nodecount=%d", profileRows)}, flags, []string{b.node, file})
		output, err := exec.CommandContext(ctx, "go", args...).Output()
		if err != nil {
			return nil, fmt.Errorf("summarize profile: %w", err)
		}
		// The text before "Showing" names files of this machine.
		if _, rest, found := bytes.Cut(output, []byte("Showing ")); found {
			output = rest
		}
		fmt.Fprintf(&text, "## %s\n\n%s\n", strings.TrimPrefix(order, "-"), output)
	}
	return text.Bytes(), nil
}

// commands lists INFO commandstats after a phase. The time of a command inside a script is also
// part of evalsha.
func commands(stats string) []byte {
	var text bytes.Buffer
	text.WriteString("## Redis: INFO commandstats\n\n")
	for line := range strings.Lines(stats) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_"); found {
			rest, _, _ = strings.Cut(rest, ",rejected_calls")
			fmt.Fprintf(&text, "%s\n", rest)
		}
	}
	return text.Bytes()
}
