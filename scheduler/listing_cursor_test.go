package scheduler_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/listing"
	"chronos/scheduler/timer"
)

// A client who may see the timers of a prefix alone learns no other key from the cursors, and misses no timer.
func TestCursorsOfAPrefixShowNoOtherKey(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		begin := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		var own []string
		for i := range 24_000 { // more than a page looks at
			key := fmt.Sprintf("%s.secret.%05d", []string{"a", "c"}[i%2], i)
			if i%2400 == 0 {
				key = fmt.Sprintf("b.%05d", i)
				own = append(own, key)
			}
			asked := oneShot(0)
			asked.At, asked.ReplicationFactor = begin.Add(time.Duration(i/3000)*time.Second), 1
			if _, err := c.nodes[0].Replace(c.Context(), timer.ID{Key: key}, asked); err != nil {
				c.Fatal(err)
			}
		}
		l := c.nodes[0].ListerOf(nil)
		q := listing.Query{Filter: listing.Filter{KeyPrefix: "b."}, Limit: 1000}
		var found []string
		pages := 0
		for ; pages < 1000; pages++ {
			page, err := l.List(c.Context(), q)
			if err != nil {
				c.Fatal(err)
			}
			found = append(found, keysOf(page.Timers)...)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			if key := keyIn(t, page.Next); strings.Contains(key, "secret") {
				c.Fatalf("the cursor shows the timer %s", key)
			}
		}
		if slices.Sort(found); !slices.Equal(found, own) || pages == 0 {
			t.Errorf("%d pages have %q, want several pages with %q", pages+1, found, own)
		}
	})
}

// keyIn is the key in a cursor, as anybody may read the key.
func keyIn(t *testing.T, cursor string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	var place struct {
		Key []byte `json:"k"`
	}
	if err := json.Unmarshal(text, &place); err != nil {
		t.Fatalf("the cursor %s: %v", text, err)
	}
	return string(place.Key)
}
