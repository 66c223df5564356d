package history

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func written(t *testing.T, events []Event) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	b := clean()
	b.fault(NodeDeath, "n1", 1000, 2000)
	b.Strays = append(b.Strays, Stray{Shard: "a", Key: "x"})
	b.asked("/1").Timer.AtNs = new(at(3))
	got, err := ReadAll(written(t, b.Events()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.History, got, cmpopts.IgnoreUnexported(Callback{})); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestManyMayWrite(t *testing.T) {
	h := clean()
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Write(Event{Header: &h.Header}); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				if err := w.Write(Event{Callback: &h.Callbacks[0]}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(w.Write(Event{End: h.End}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAll(&b)
	if err != nil || len(got.Callbacks) != 400 {
		t.Errorf("%d callbacks, error %v", len(got.Callbacks), err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAWriterTellsItsFirstError(t *testing.T) {
	w := NewWriter(broken{})
	if err := w.Write(Event{End: &End{}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("flush: %v", err)
	}
	if err := w.Write(Event{End: &End{}}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write: %v", err)
	}
}

func TestAWriterRefusesWhatIsInvalid(t *testing.T) {
	w := NewWriter(io.Discard)
	for name, e := range map[string]Event{
		"nothing":               {},
		"two members":           {End: &End{}, Home: &Home{}},
		"unknown kind":          {Operation: &Operation{Kind: "patch", Outcome: OK}},
		"unknown outcome":       {Operation: &Operation{Kind: Get, Key: "k"}},
		"return before invoke":  {Operation: &Operation{Kind: Get, Key: "k", Outcome: OK, InvokeNs: 2, ReturnNs: 1}},
		"ok without a return":   {Operation: &Operation{Kind: Get, Key: "k", Outcome: OK, ReturnNs: -1}},
		"create without timer":  {Operation: &Operation{Kind: Create, Outcome: Unknown}},
		"create without key":    {Operation: &Operation{Kind: Create, Outcome: OK, Timer: &Asked{Pops: 1}}},
		"no pops":               {Operation: &Operation{Kind: Create, Outcome: Unknown, Timer: &Asked{}}},
		"too long":              {Operation: &Operation{Kind: Create, Outcome: Unknown, Timer: &Asked{IntervalMs: 1 << 40, Pops: 3}}},
		"pops without interval": {Operation: &Operation{Kind: Create, Outcome: Unknown, Timer: &Asked{Pops: 2}}},
		"delete without key":    {Operation: &Operation{Kind: Delete, Outcome: OK}},
		"fault without node":    {Fault: &Fault{Class: NodeDeath}},
		"fault without shard":   {Fault: &Fault{Class: ShardAway}},
		"unknown class":         {Fault: &Fault{Class: "fire"}},
		"fault backwards":       {Fault: &Fault{Class: Harmless, StartNs: 2, EndNs: 1}},
		"answer before arrival": {Callback: &Callback{ArriveNs: 2, AnsweredNs: 1}},
		"unknown phase":         {Sample: &Sample{}},
		"unknown mode":          {Header: &Header{}},
	} {
		if err := w.Write(e); err == nil {
			t.Errorf("%s: was written", name)
		}
	}
}

func TestAReaderNamesTheLine(t *testing.T) {
	lines := strings.SplitAfter(written(t, clean().Events()).String(), "\n")
	whole := func(third string) string { return lines[0] + lines[1] + third + strings.Join(lines[2:], "") }
	for name, in := range map[string]struct{ text, want string }{
		"no JSON":          {whole("{\n"), "line 3:"},
		"unknown field":    {whole(`{"home":{"key":"k","shard":"a"}}` + "\n"), `line 3: json: unknown field "shard"`},
		"unknown event":    {whole(`{"house":{}}` + "\n"), "line 3:"},
		"two on a line":    {whole(`{"home":{"key":"k"}} {}` + "\n"), "line 3: something follows the event"},
		"empty line":       {whole("\n"), "line 3: it is empty"},
		"invalid":          {whole(`{"fault":{"class":"fire"}}` + "\n"), `line 3: class "fire" is unknown`},
		"second header":    {whole(lines[0]), "line 3: the header is the first line"},
		"header missing":   {strings.Join(lines[1:], ""), "line 1: the header is the first line"},
		"cut in a line":    {lines[0] + lines[1][:20], "line 2: unexpected EOF"},
		"cut after a line": {lines[0] + lines[1], "it has no end"},
		"two ends":         {strings.Join(lines, "") + lines[len(lines)-2], "the end is there twice"},
		"empty":            {"", "it has no end"},
	} {
		if _, err := ReadAll(strings.NewReader(in.text)); err == nil || !strings.Contains(err.Error(), in.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, in.want)
		}
	}
}

func TestAReportShowsEverything(t *testing.T) {
	b := clean()
	b.Header.Seed, b.Header.Reproduce = 42, "make sim SEED=42"
	for i := range 12 {
		b.call("k9", "/9", i, 1, 1, 1000, 200)
	}
	b.Samples = nil
	r := Check(b.History)
	if f := r.Of(OnlyWhatWasTold); f.Total != 12 || len(f.Violations) != 10 {
		t.Errorf("%d violations, %d described; want 12 and 10", f.Total, len(f.Violations))
	}
	got := text(t, &r)
	for _, want := range []string{"seed 42  make sim SEED=42", "only what was asked", "no write asked for it", "not judged", "unknown: only", "failed\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if f := r.Of(99); f.Invariant != 99 || f.Total != 0 {
		t.Errorf("finding of an unknown invariant: %+v", f)
	}
}
