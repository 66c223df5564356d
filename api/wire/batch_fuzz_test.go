package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// placed is a place in a body; in a batch the place differs.
var placed = regexp.MustCompile(`byte [0-9]+`)

// A batch of n entries is read like n bodies: the same timers, the same errors. The batch is
// refused as a whole if and only if the batch is no JSON.
func FuzzDecodeBatch(f *testing.F) {
	var all []string
	for _, tc := range refusals() {
		if len(tc[0]) < 1000 {
			all = append(all, tc[0])
			f.Add([]byte(apitest.Simple+"\x1e"+tc[0]+"\x1e"+apitest.Simple), "k")
		}
	}
	f.Add([]byte(apitest.WithMore(`"a":1,"reliability":{"b":2,"replication-factor":3}`)+"\x1e "+apitest.WithMore(`"statistics":{"tag-info":[{"type":"T","c":2},{"type":"U"}]}`)+"\n\x1e"+apitest.Simple), "")
	slices.Sort(all)
	f.Add([]byte(strings.Join(all, "\x1e")), "")
	f.Fuzz(func(t *testing.T, joined []byte, key string) {
		entries := bytes.Split(joined, []byte{0x1e})
		if len(entries) > maxBatch {
			return
		}
		body := fmt.Appendf(nil, `{"timers":[%s]}`, bytes.Join(entries, []byte{','}))
		whole := json.Valid(body) // whatever its strings hold
		before := string(body)
		b, err := DecodeBatch(body, key, Lenient)
		if string(body) != before {
			t.Fatal("the body was changed")
		}
		if !whole {
			if err == nil {
				t.Fatal("what is no JSON was accepted")
			}
			return
		}
		for _, entry := range entries {
			// Pieces that are no JSON alone may be JSON together, such as [1 and 2].
			if !json.Valid(entry) {
				return
			}
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		if len(b.Entries) != len(entries) {
			t.Fatalf("have %d entries, want %d", len(b.Entries), len(entries))
		}
		for i, entry := range entries {
			checkEntry(t, &b, i, entry, key)
		}
	})
}

func checkEntry(t *testing.T, b *Batch, i int, body []byte, key string) {
	t.Helper()
	asked, ignored, err := decode(body)
	have := &b.Entries[i]
	if err != nil || have.Err != nil {
		single, batched := &timer.InvalidError{}, &timer.InvalidError{}
		if !errors.As(err, &single) || !errors.As(have.Err, &batched) {
			t.Fatalf("entry %d: have %v, want %v", i, have.Err, err)
		}
		want := *single
		want.Detail = placed.ReplaceAllString(want.Detail, "")
		if want.Code == "body-not-object" {
			want.Detail = batched.Detail
		}
		got := *batched
		got.Detail = placed.ReplaceAllString(got.Detail, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("entry %d (-want +have):\n%s", i, diff)
		}
		return
	}
	if asked.ReplicationFactor == 0 {
		asked.ReplicationFactor = timer.DefaultReplicationFactor
	}
	for j := range ignored {
		ignored[j] = entryPointer(i, ignored[j])
	}
	want := timer.Creation{Timer: asked}
	if key != "" {
		want.IdempotencyKey, want.Body = entryKey(key, i), bytes.Trim(body, whiteSpace)
	}
	if diff := cmp.Diff(want, *have); diff != "" {
		t.Fatalf("entry %d (-want +have):\n%s", i, diff)
	}
	if diff := cmp.Diff(ignored, b.ignored[i]); diff != "" {
		t.Fatalf("entry %d ignored (-want +have):\n%s", i, diff)
	}
}
