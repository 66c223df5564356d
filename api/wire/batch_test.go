package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// Fiber uses the memory of a body again.
func TestBatchCopies(t *testing.T) {
	body := []byte(apitest.ListOf(apitest.WithMore(`"statistics":{"tag-info":[{"type":"CALL"}]},"x":1`), apitest.WithHTTP(`"uri":"http://a/b","opaque":"o\n"`), `{"timing":1}`))
	original := bytes.Clone(body)
	have, err := DecodeBatch(body, "k", Lenient)
	if err != nil {
		t.Fatal(err)
	}
	want, err := DecodeBatch(original, "k", Lenient)
	if err != nil {
		t.Fatal(err)
	}
	clear(body)
	for i := range have.Entries {
		have.Entries[i].Body, want.Entries[i].Body = nil, nil // bodies are meant to alias
	}
	if diff := cmp.Diff(want, have, cmp.AllowUnexported(Batch{})); diff != "" {
		t.Errorf("what was decoded changes with the body (-want +have):\n%s", diff)
	}
}

// The charged room is more than an answer can take.
func TestBatchAnswersFit(t *testing.T) {
	late := timer.Receipt{
		ID: timer.ID{Key: "ik-" + strings.Repeat("f", 32), RF: 16, Hint: ^timer.Hint(0)}, Due: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), Copies: 16, Replayed: true, Over: true,
	}
	long := apitest.WithMore(`"` + strings.Repeat(`\u0001`, maxIgnoredName) + `":1`)
	for name, entry := range map[string]string{"ignored": long, "refused": `{"timing":{"interval":1},"statistics":{"tag-info":[{"type":"A","count":-1}]}}`, "surrogate": `{"a":"\ud800"}`} {
		b, err := DecodeBatch([]byte(apitest.TimersOf(maxBatch, entry)), "k", Lenient)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Entries {
			if b.Entries[i].Err == nil {
				b.Entries[i].Receipt = late
			}
		}
		outcome := b.Judge()
		if body := b.Render(outcome.Failed); len(body) > b.Room() || !json.Valid(body) {
			t.Errorf("%s: %d bytes in a room of %d", name, len(body), b.Room())
		}
	}
}
