package redisstore

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
)

// A reader of one prefix gets all letters of the prefix, and no text of other letters, by a cursor.
func TestCursorsWithinAPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ behind, prefix, want string }{
		{"", "b.", ""},
		{"-b.secret no", "", "-b.secret no"},
		{"-b.1 no", "b.", "-b.1 no"},
		{"-b no", "b.", "-"},
		{"-a.secret no", "b.", "-"},
		{"-", "b.", "-"},
		{"-c.secret no", "b.", "-b.\x7f"},
		{"-b~secret no", "b.", "-b.\x7f"},
		{"-c.secret", strings.Repeat("b", positionBytes), "-c.secret"},
	} {
		if got := (letterPosition{score: 7, behind: c.behind}).within(c.prefix); got != (letterPosition{score: 7, behind: c.want}) {
			t.Errorf("%q within %q is %+v, want %q", c.behind, c.prefix, got, c.want)
		}
	}
}

// A page that ends among other letters, since the store has looked at enough of them, goes on all the same.
func TestAPrefixAmongVeryManyLetters(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	s := openStore(t, "node", "http", server)
	pipe := server.client.Pipeline()
	add := func(score int, key string) {
		pipe.ZAdd(t.Context(), s.keys[partitionOf(key)].dead, redis.Z{Score: float64(score), Member: letterOf(key, "no", "http://h/")})
	}
	for i := range letterScan + letterRound*Partitions {
		add(1795221196929+i/3, fmt.Sprint("ac"[i%2:i%2+1], ".secret", i)) // before and behind the prefix
	}
	add(1795221196928, "b.1")
	add(1795221196929, "b.2")
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	pages := 0
	got := allLetters(t, s, store.LetterQuery{Filter: store.LetterFilter{KeyPrefix: "b."}, Limit: 10}, func(page store.LetterPage) {
		pages++
		if raw, err := base64.RawURLEncoding.DecodeString(page.Next); err != nil || strings.Contains(string(raw), "secret") {
			t.Errorf("the cursor is %q, %v", raw, err)
		}
	})
	if want := []string{letterOf("b.2", "no", "http://h/"), letterOf("b.1", "no", "http://h/")}; !slices.Equal(got, want) || pages < 2 {
		t.Errorf("%q on %d pages, want %q on several", got, pages, want)
	}
}
