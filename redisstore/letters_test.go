package redisstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// onBoth runs a test on shards in this process and on real shards.
func onBoth(t *testing.T, shards int, test func(t *testing.T, s *Store, all []*testRedis)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB) *testRedis{
		"mini": func(t testing.TB) *testRedis { t.Helper(); return startMini(t, time.Now()) },
		"real": func(t testing.TB) *testRedis { t.Helper(); return startRedis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []*testRedis
			for range shards {
				all = append(all, start(t))
			}
			test(t, openStore(t, "node", "http", all...), all)
		})
	}
}

// letterOf is the text that settle writes for a timer that was given up.
func letterOf(key, reason, uri string) string {
	return key + " " + record.Escape(reason) + ` 1L 01a1fb85907db7e9 00000000001 005 00 02 0000000000000 +01795221196927 tags=call=1 {"uri":"` + uri + `","opaque":"` + key + `"}`
}

// plant stores a dead letter on the given shard, in the partition of the letter's key.
func plant(t *testing.T, s *Store, on *testRedis, score float64, text string) {
	t.Helper()
	key, _, _ := strings.Cut(text, " ")
	if err := on.client.ZAdd(t.Context(), s.keys[partitionOf(key)].dead, redis.Z{Score: score, Member: text}).Err(); err != nil {
		t.Fatal(err)
	}
}

// allLetters goes over all pages, and calls done with every page.
func allLetters(t *testing.T, s *Store, q store.LetterQuery, done func(page store.LetterPage)) (texts []string) {
	t.Helper()
	for range 2000 {
		page, err := s.Letters(t.Context(), q)
		if err != nil {
			t.Fatalf("list from %q: %v", q.Cursor, err)
		}
		if len(page.Letters) > q.Limit {
			t.Fatalf("a page of %d letters, asked for %d", len(page.Letters), q.Limit)
		}
		for _, l := range page.Letters {
			texts = append(texts, l.Text)
		}
		done(page)
		if q.Cursor = page.Next; q.Cursor == "" {
			return texts
		}
	}
	t.Fatal("the list has no end")
	return nil
}

func TestLettersAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, s *Store, all []*testRedis) {
		type stored struct {
			score float64
			text  string
		}
		var planted []stored
		for i := range 150 {
			// Few instants, so that many letters have the same instant. Some texts are longer than the part in a
			// position.
			key := fmt.Sprintf("k%d-%s", i, strings.Repeat("x", rand.IntN(100)))
			l := stored{float64(1795221196000 + rand.IntN(40)), letterOf(key, "answered 500", "http://h/"+strings.Repeat("y", rand.IntN(600)))}
			planted = append(planted, l)
			plant(t, s, all[rand.IntN(3)], l.score, l.text)
		}
		slices.SortFunc(planted, func(a, b stored) int { return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(b.text, a.text)) })
		var want []string
		for _, l := range planted {
			want = append(want, l.text)
		}
		for _, limit := range []int{1, 7, 64, 1000} {
			got := allLetters(t, s, store.LetterQuery{Limit: limit}, func(page store.LetterPage) {
				if page.Total != 150 || page.Unreached != nil {
					t.Fatalf("total %d, unreached %v", page.Total, page.Unreached)
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %d letters, or another order than by time", limit, len(got))
			}
		}
		// Removals during a listing shift no letter.
		got := allLetters(t, s, store.LetterQuery{Limit: 33}, func(page store.LetterPage) {
			for i, err := range s.RemoveLetters(t.Context(), page.Letters) {
				if err != nil {
					t.Fatalf("remove %s: %v", page.Letters[i].ID, err)
				}
			}
		})
		if !slices.Equal(got, want) {
			t.Errorf("listed while they are removed: %d letters of %d", len(got), len(want))
		}
		if page, _ := s.Letters(t.Context(), store.LetterQuery{Limit: 1}); page.Total != 0 || len(page.Letters) != 0 || page.Next != "" {
			t.Errorf("left: %+v", page)
		}
	})
}

func TestLetterFilters(t *testing.T) {
	t.Parallel()
	onBoth(t, 2, func(t *testing.T, s *Store, all []*testRedis) {
		at := time.UnixMilli(1795221196000)
		for i, text := range []string{
			letterOf("order-1", "answered 500", "http://u:s3cret@a.example:8080/x"),
			letterOf("order-2", "no answer within 2 s", "https://b.example/y"),
			letterOf("stock-1", "answered 503", "http://a.example/z"),
			"order-3 unreadable whatever",
			"\x00 nothing",
		} {
			plant(t, s, all[i%2], float64(at.UnixMilli()+int64(i)*1000), text)
		}
		for name, c := range map[string]struct {
			filter store.LetterFilter
			want   string // ends of the keys, the newest first
		}{
			"all":              {store.LetterFilter{}, "?,order-3,stock-1,order-2,order-1"},
			"key":              {store.LetterFilter{Key: "order-2"}, "order-2"},
			"no such key":      {store.LetterFilter{Key: "order"}, ""},
			"prefix":           {store.LetterFilter{KeyPrefix: "order-"}, "order-3,order-2,order-1"},
			"reason":           {store.LetterFilter{Reason: "answered 50"}, "stock-1,order-1"},
			"host":             {store.LetterFilter{Callback: "A.example"}, "stock-1,order-1"},
			"host and port":    {store.LetterFilter{Callback: "a.example:8080"}, "order-1"},
			"URL":              {store.LetterFilter{Callback: "http://a.example:8080/"}, "order-1"},
			"URL with a user":  {store.LetterFilter{Callback: "http://u:s3"}, ""},
			"since":            {store.LetterFilter{Since: at.Add(2 * time.Second)}, "?,order-3,stock-1"},
			"until":            {store.LetterFilter{Until: at.Add(2 * time.Second)}, "stock-1,order-2,order-1"},
			"since and until":  {store.LetterFilter{Since: at.Add(time.Second), Until: at.Add(1999 * time.Millisecond)}, "order-2"},
			"prefix and host":  {store.LetterFilter{KeyPrefix: "order", Callback: "b.example"}, "order-2"},
			"nothing is as so": {store.LetterFilter{KeyPrefix: "stock", Callback: "b.example"}, ""},
		} {
			for _, limit := range []int{1, 100} {
				var keys []string
				allLetters(t, s, store.LetterQuery{Filter: c.filter, Limit: limit}, func(page store.LetterPage) {
					for _, l := range page.Letters {
						keys = append(keys, cmp.Or(l.Key, "?"))
					}
				})
				if got := strings.Join(keys, ","); got != c.want {
					t.Errorf("%s, %d a page: %s, want %s", name, limit, got, c.want)
				}
			}
		}
	})
}

func TestALetterIsFoundReadAndRemoved(t *testing.T) {
	t.Parallel()
	onBoth(t, 2, func(t *testing.T, s *Store, all []*testRedis) {
		for i := range 200 { // all of one millisecond, and some dozen of one partition
			plant(t, s, all[i%2], 1795221196929, letterOf(fmt.Sprint("k", i), "answered 500", "http://h/"))
		}
		page, err := s.Letters(t.Context(), store.LetterQuery{Filter: store.LetterFilter{Key: "k77"}, Limit: 10})
		if err != nil || len(page.Letters) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		l, err := s.Letter(t.Context(), page.Letters[0].ID)
		if err != nil || l.Err != nil {
			t.Fatalf("%+v, %v", l, err)
		}
		r := l.Record
		if l.Key != "k77" || l.Shard != "b" || l.Reason != "answered 500" || l.At.UnixMilli() != 1795221196929 || r.State.Attempt != 5 ||
			r.ID.RF != 2 || r.Timer.Callback != (timer.Callback{URI: "http://h/", Opaque: "k77"}) || r.Timer.Tags[0] != (timer.Tag{Type: "call", Count: 1}) {
			t.Errorf("%+v", l)
		}
		plant(t, s, all[0], 1795221196929, l.Text) // as during a move
		if twice := allLetters(t, s, store.LetterQuery{Limit: 3}, func(store.LetterPage) {}); len(twice) != 200 {
			t.Errorf("%d letters are listed, want 200: one is on two shards", len(twice))
		}
		if err := s.RemoveLetters(t.Context(), []store.Letter{l})[0]; err != nil {
			t.Fatal(err)
		}
		if _, err := s.Letter(t.Context(), l.ID); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("not found by a node that doesn't know the shards yet: %v", err)
		}
		if err := s.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Letter(t.Context(), l.ID); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("found after it was removed: %v", err)
			}
			if err := s.RemoveLetters(t.Context(), []store.Letter{l})[0]; err != nil {
				t.Errorf("removed twice: %v", err)
			}
		}
		if survey, err := s.Survey(t.Context(), "b"); err != nil || survey.Letters != 99 {
			t.Errorf("%d letters left on b, %v, want 99", survey.Letters, err)
		}
	})
}

// Every dead letter that a Redis holds is listed, shown as stored, and can be removed, whatever the text.
func TestHostileLetters(t *testing.T) {
	t.Parallel()
	const head = ` 1L 01a1fb85907db7e9 00000000001 005 00 02 0000000000000 +01795221196927 {"uri":"http://h/"}`
	readable := []string{"k answered%20500" + head, "k -" + head}
	unreadable := []string{
		"", " ", "  ", "\x00\xff\xfe", "k", "k ", "k x", "k x ", "%zz x" + head, "k %zz" + head, "a%2Fb x" + head, "references x" + head,
		"k-2-0123456789abcdef x" + head, "k x" + strings.Replace(head, " 005 ", " -05 ", 1), "k x" + strings.Replace(head, "{", "{{", 1),
		"k x 1L 01a1fb85907db7e9 00000000001 005 00 02 0000000000000 +01795221196927", strings.Repeat("k", 129) + " x" + head, strings.Repeat(" ", 5000),
		"k x" + strings.Replace(head, "005", strings.Repeat("9", 400), 1) + "\x1b[2J",
	}
	onBoth(t, 1, func(t *testing.T, s *Store, all []*testRedis) {
		scores := []float64{0, -1, .5, 1795221196929, 1795221196929}
		if all[0].mini == nil { // miniredis' Lua reads no exponents
			scores = append(scores, math.Inf(1), math.Inf(-1), 1e300, -1e300, 5e-324)
		}
		want := map[string]bool{}
		for i, text := range slices.Concat(readable, unreadable) {
			want[text] = i < len(readable)
			if err := all[0].client.ZAdd(t.Context(), s.keys[i%Partitions].dead, redis.Z{Score: scores[i%len(scores)], Member: text}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, limit := range []int{1, 2, 1000} {
			listed := allLetters(t, s, store.LetterQuery{Limit: limit}, func(store.LetterPage) {})
			for text := range want {
				if !slices.Contains(listed, text) {
					t.Errorf("%d a page: %.60q is not listed", limit, text)
				}
			}
			if len(listed) != len(want) {
				t.Errorf("%d a page: %d are listed, want %d", limit, len(listed), len(want))
			}
		}
		page, err := s.Letters(t.Context(), store.LetterQuery{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Letters {
			good, known := want[l.Text]
			if !known || good != (l.Err == nil) || !good && !errors.Is(l.Err, store.ErrUnreadable) {
				t.Errorf("%.60q: known %v, want readable %v, have %v", l.Text, known, good, l.Err)
			}
			if year := l.At.Year(); year < 1970 || year > 9999 {
				t.Errorf("%.60q was given up in %d", l.Text, year)
			}
			again, err := s.Letter(t.Context(), l.ID)
			if err != nil || again.Text != l.Text {
				t.Errorf("%.60q is found by its id as %.60q, %v", l.Text, again.Text, err)
			}
		}
		for i, err := range s.RemoveLetters(t.Context(), page.Letters) {
			if err != nil {
				t.Errorf("%.60q: %v", page.Letters[i].Text, err)
			}
		}
		if survey, err := s.Survey(t.Context(), "a"); err != nil || survey.Letters != 0 {
			t.Errorf("%d are left, %v", survey.Letters, err)
		}
	})
}

// A page has a limit in bytes, so a page of large letters has few letters.
func TestLargeLetters(t *testing.T) {
	t.Parallel()
	onBoth(t, 2, func(t *testing.T, s *Store, all []*testRedis) {
		large := strings.Repeat("x", 1<<20)
		for i := range 20 {
			plant(t, s, all[i%2], 1795221196929+float64(i/2), letterOf(fmt.Sprint("k", i), "no", "http://h/")+large)
		}
		pages := 0
		got := allLetters(t, s, store.LetterQuery{Limit: 1000}, func(page store.LetterPage) {
			if pages++; len(page.Letters) > 9 {
				t.Errorf("a page of %d letters of a megabyte", len(page.Letters))
			}
		})
		if len(got) != 20 || pages > 20 {
			t.Errorf("%d letters on %d pages", len(got), pages)
		}
	})
}

func TestMadeUpCursorsAndIDs(t *testing.T) {
	t.Parallel()
	s := openStore(t, "node", "http", startMini(t, time.Now()))
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	for _, cursor := range []string{
		"x", "=", "é", encode([]byte("1")), encode([]byte("1 ")), encode([]byte("1 x")), encode([]byte("nan -x")), encode([]byte("one -x")),
		encode([]byte("1 -" + strings.Repeat("x", positionBytes+1))), strings.Repeat("A", 1<<20),
	} {
		if _, err := s.Letters(t.Context(), store.LetterQuery{Cursor: cursor, Limit: 1}); !errors.Is(err, store.ErrCursor) {
			t.Errorf("cursor %.40q: %v", cursor, err)
		}
	}
	good := letterID{score: 1, partition: 7, hash: "0123456789abcdef"}.String()
	nan := letterID{score: math.NaN(), partition: 7, hash: "0123456789abcdef"}.String()
	for _, id := range []string{
		good, nan, "", "-", "--", "a-b-c", strings.ToUpper(good), good + "-", " " + good, strings.Replace(good, "-07-", "-7-", 1),
		strings.Replace(good, "-07-", "-16-", 1), "0" + good, strings.Repeat("z", 1<<16) + "-07-0123456789abcdef",
	} {
		if _, err := s.Letter(t.Context(), id); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("id %.60q: %v", id, err)
		}
	}
	for _, p := range []letterPosition{
		{1795221196929, "-k"}, {math.Inf(1), "-\x00\xff"}, {-1e300, "-" + strings.Repeat(" ", positionBytes)}, {5e-324, "-"}, {0, "- -"},
	} {
		if got, err := parseLetterCursor(p.cursor()); err != nil || got != p {
			t.Errorf("%+v comes back as %+v, %v", p, got, err)
		}
	}
}

// The list names a shard that can't be reached, and has the letters of all reachable shards.
func TestLettersOfAShardThatIsAway(t *testing.T) {
	t.Parallel()
	a, b := testkit.StartRedis(t), testkit.StartRedis(t)
	s := openShards(t, &testkit.Log{}, shardOf("a", a), shardOf("b", b))
	here, there := letterOf("k1", "no", "http://h/"), letterOf("k2", "no", "http://h/")
	a.Do("ZADD", s.keys[partitionOf("k1")].dead, 1795221196929, here)
	b.Do("ZADD", s.keys[partitionOf("k2")].dead, 1795221196929, there)
	page, err := s.Letters(t.Context(), store.LetterQuery{Limit: 10})
	if err != nil || len(page.Letters) != 2 || page.Unreached != nil {
		t.Fatalf("%+v, %v", page, err)
	}
	b.Kill()
	partial, err := s.Letters(t.Context(), store.LetterQuery{Limit: 10})
	if err != nil || len(partial.Letters) != 1 || partial.Letters[0].Key != "k1" || !slices.Equal(partial.Unreached, []string{"b"}) || partial.Total != 1 {
		t.Errorf("with a shard away: %+v, %v", partial, err)
	}
	for _, l := range page.Letters {
		_, found := s.Letter(t.Context(), l.ID)
		removed := s.RemoveLetters(t.Context(), []store.Letter{l})[0]
		if l.Key == "k1" && (found != nil || removed != nil) {
			t.Errorf("k1: %v, %v", found, removed)
		}
		if l.Key == "k2" && (!errors.Is(found, timer.ErrUnavailable) || !errors.Is(removed, timer.ErrUnavailable)) {
			t.Errorf("k2: %v, %v, want unavailable", found, removed)
		}
	}
}

// Old letters go, by the shard's clock, and nothing else.
func TestLettersAreKeptForSoLong(t *testing.T) {
	t.Parallel()
	onBoth(t, 1, func(t *testing.T, s *Store, all []*testRedis) {
		now := float64(all[0].now(t).UnixMilli())
		const keep = time.Hour
		for i := range 2*pruneMost + 100 { // in one partition
			member := fmt.Sprintf("old%d", i)
			if err := all[0].client.ZAdd(t.Context(), s.keys[5].dead, redis.Z{Score: now - 3600_001 - float64(i), Member: member}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i, score := range []float64{now - 3500_000, now, now + 1e9, math.Inf(1)} {
			plant(t, s, all[0], score, letterOf(fmt.Sprint("young", i), "no", "http://h/"))
		}
		if err := s.pruneShard(t.Context(), s.shards()[0], keep); err != nil {
			t.Fatal(err)
		}
		left := allLetters(t, s, store.LetterQuery{Limit: 100}, func(store.LetterPage) {})
		if len(left) != 4 || strings.Contains(strings.Join(left, ""), "old") {
			t.Errorf("left are %d: %.200q", len(left), left)
		}
	})
}

// PruneLetters removes old letters by itself, until PruneLetters is told to end.
func TestPruneLetters(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	s := openStore(t, "node", "http", server)
	plant(t, s, server, float64(time.Now().UnixMilli()), letterOf("k", "no", "http://h/"))
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(done); s.PruneLetters(ctx, 300*time.Millisecond) }()
	testkit.Eventually(t, 15*time.Second, "the letter to be too old", func() bool {
		survey, err := s.Survey(t.Context(), "a")
		return err == nil && survey.Letters == 0
	})
	stop()
	<-done
}

// A removed shard leaves its dead letters to the remaining shards.
func TestLettersOfARemovedShardAreMoved(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	l.drain(s, "c")
	l.wantActive(8*time.Second, "a", "b")
	want := map[string]string{}
	for i := range 700 {
		key := fmt.Sprint("k", i)
		text := letterOf(key, "answered 500", "http://h/")
		if i%100 == 0 {
			text = key + " unreadable x"
		}
		dead := laneKeys(shard.Lanes()[i%2])[partitionOf(key)].dead
		l.redis["c"].Do("ZADD", dead, 1795221196929+i, text)
		want[fmt.Sprint(dead, text)] = fmt.Sprint(1795221196929 + i)
		if i%10 == 0 { // as from a node that moved the letter and died before the removal
			l.redis[s.Rank(key)[0]].Do("ZADD", dead, 1795221196929+i, text)
		}
	}
	l.redis["a"].Do("CONFIG", "SET", "maxmemory", "1")
	testkit.Eventually(t, 5*time.Second, "a refusal since a is full", func() bool {
		var refused *topology.RefusedError
		if _, err := s.RemoveShard(t.Context(), "c", false); !errors.As(err, &refused) {
			t.Fatalf("removed while a is full: %v", err)
		}
		return strings.Contains(refused.Reason, "can't be moved")
	})
	l.redis["a"].Do("CONFIG", "SET", "maxmemory", "0")
	testkit.Eventually(t, time.Minute, "the removal", func() bool {
		_, err := s.RemoveShard(t.Context(), "c", false)
		if err != nil && !strings.Contains(err.Error(), "more than can be moved at once") {
			t.Fatal(err)
		}
		return err == nil
	})
	got := map[string]string{}
	for _, name := range []string{"a", "b"} {
		for _, lane := range shard.Lanes() {
			for _, keys := range laneKeys(lane) {
				all, _ := l.redis[name].Do("ZRANGE", keys.dead, 0, -1, "WITHSCORES").([]any)
				for i := 0; i < len(all); i += 2 {
					text, _ := all[i].(string)
					key, _, _ := strings.Cut(text, " ")
					if home := s.Rank(key)[0]; home != name {
						t.Errorf("%s is on %s, its home is %s", key, name, home)
					}
					got[fmt.Sprint(keys.dead, text)] = fmt.Sprint(all[i+1])
				}
			}
		}
	}
	for text, score := range want {
		if got[text] != score {
			t.Errorf("%.60s: score %q, want %q", text, got[text], score)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d letters, want %d", len(got), len(want))
	}
}
