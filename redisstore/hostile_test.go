package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/testkit"
)

// TestUnreadableRecordsHinderNobody: the contents of a record or an entry of a Redis are input like any other. An
// unreadable record is claimed as unreadable and becomes a dead letter; due timers beside the record fire.
func TestUnreadableRecordsHinderNobody(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *testRedis{
		"mini": startSwift, "real": func(t testing.TB) *testRedis { t.Helper(); return startRedis(t) },
	} {
		for _, leave := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leaving own retries %v", name, leave), func(t *testing.T) {
				t.Parallel()
				shard := start(t)
				s := openStore(t, "node", "http", shard)
				broken := plantUnreadable(t, s, shard.client)
				healthy := s.keysOf("a", 3, 5)
				var writes []store.Write
				for _, key := range healthy {
					w := oneWrite(key, 1)
					w.Timer.Interval = 0
					writes = append(writes, w)
				}
				s.Merge(t.Context(), writes)

				got := map[string]error{}
				testkit.Eventually(t, 10*time.Second, "all to be claimed", func() bool {
					result, err := s.Claim(t.Context(), "a", store.ClaimRequest{
						Horizon: time.Minute, Limit: 500, Grace: time.Minute, LeaveOwnRetries: leave,
					})
					if err != nil {
						t.Fatalf("claim: %v", err)
					}
					for _, c := range result.Claims {
						got[c.Lease.Key] = c.Err
						settleDead(t, s, c)
					}
					return len(got) == len(broken)+len(healthy)
				})
				for key, err := range got {
					if unreadable := slices.Contains(broken, key); unreadable != (err != nil) {
						t.Errorf("%s is claimed with error %v", key, err)
					} else if unreadable && strings.Contains(err.Error(), "s3cret") {
						t.Errorf("the error repeats what the record holds: %v", err)
					}
				}
				survey, err := s.Survey(t.Context(), "a")
				if err != nil || survey.Pending+survey.Tombstones != 0 {
					t.Errorf("%+v are left, %v, want none", survey, err)
				}
				if letters := shard.client.ZCard(t.Context(), s.keys[3].dead).Val(); letters != int64(len(got)) {
					t.Errorf("%d dead letters in the partition, want %d", letters, len(got))
				}
			})
		}
	}
}

func settleDead(t *testing.T, s *Store, c store.Claimed) {
	t.Helper()
	settled := s.Settle(t.Context(), "a", []store.Settlement{{Lease: c.Lease, Outcome: store.OutcomeDead, Reason: "test"}})[0]
	if settled.Err != nil || !settled.Accepted {
		t.Fatalf("settle %s: %+v", c.Lease.Key, settled)
	}
}

// plantUnreadable puts unreadable records into partition 3, and a good record of another partition, and returns
// their keys.
func plantUnreadable(t *testing.T, s *Store, client redis.UniversalClient) (keys []string) {
	t.Helper()
	const good = `1L 0000000000000001 00000000001 000 00 02 0000000000002 +00000000000001 {"uri":"http://h/"}`
	plant := func(key, record string) {
		t.Helper()
		ctx := context.Background()
		if err := client.HSet(ctx, s.keys[3].timers, key, record).Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.ZAdd(ctx, s.keys[3].due, redis.Z{Score: 1, Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	records := []string{
		"", "s3cret", " ", "x y z", strings.Replace(good, " 0000", " -000", 1), strings.Replace(good, " 00000000001 ", "         inf ", 1),
		strings.Replace(good, " 02 ", "  2 ", 1), strings.Replace(good, "{", "{s3cret", 1), good[:20], good[:71], strings.Replace(good, "1L", "1T", 1),
		strings.Replace(good, " {", " failure=s3cret {", 1), "\x00\xff" + good, strings.Repeat("9", 400) + good, strings.Replace(good, "0000000000000001", "00000000 0000nan", 1),
	}
	for i, key := range s.keysOf("a", 3, len(records)+5)[5:] { // the first five are healthy
		plant(key, records[i])
	}
	plant(s.keysOf("a", 4, 1)[0], good)
	for _, key := range hostileKeys() {
		plant(key, good)
	}
	return keys
}

// hostileKeys are keys of partition 3 that no header may have unescaped.
func hostileKeys() (keys []string) {
	for _, start := range []string{"a\r\nX-Evil: s3cret", "a b", "a\x00", "ü", "\xff", "a/../b", "a&time-from=0", strings.Repeat("k", 129)} {
		for i := 0; ; i++ {
			if key := start + fmt.Sprint(i); partitionOf(key) == 3 {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// Stored announcements of nodes are input, too. Clocks that are of no use any more are forgotten.
func TestUnreadableClocksHinderNobody(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		now, err := shard.client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		ms := now.UnixMilli()
		day := (24 * time.Hour).Milliseconds()
		said := map[string]string{
			"of one that is gone": fmt.Sprint(ms+60_000, ms-100_000, " -"), "of one that came before the shard's was set back": fmt.Sprint(ms+30_000, ms+100_000, " -"),
			"behind": fmt.Sprint(ms-1, ms, " -"), "behind and gone": fmt.Sprint(ms-110_000, ms-100_000, " -"), "much": fmt.Sprint(int64(9e15), ms, " -"),
			"much and gone": fmt.Sprint(ms+day, ms-100_000, " -"), "more than a number": "9" + strings.Repeat("0", 400) + " " + fmt.Sprint(ms, " -"), "no time": "120000",
			"a word": "s3cret", "nothing": "", "a fraction": fmt.Sprint(1.5, ms, " -"),
		}
		if err := shard.client.HSet(t.Context(), clocksKey("http"), said).Err(); err != nil {
			t.Fatal(err)
		}
		heard, err := s.Beat(t.Context(), "a", store.Announcement{Clock: now})
		if want := now.Add(time.Minute + timing.NodeLife); err != nil || heard.Fastest.UnixMilli() != want.UnixMilli() {
			t.Errorf("the fastest clock is %v ahead, %v; want one that stands still a minute and %v ahead", heard.Fastest.Sub(now), err, timing.NodeLife)
		}
		left, err := shard.client.HKeys(t.Context(), clocksKey("http")).Result()
		slices.Sort(left)
		want := []string{"behind", "much", "node", "of one that came before the shard's was set back", "of one that is gone"}
		if left = slices.DeleteFunc(left, func(of string) bool { return of == "more than a number" }); err != nil || !slices.Equal(left, want) {
			t.Errorf("left is what %q said, %v; want %q", left, err, want)
		}
	})
}

// A node that names no format, as nodes before v0.2.0, reads the first format. The same holds for a node that has named something else.
func TestFormatsOfNodes(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		now := time.Now()
		want := map[string]int{"node": timer.LastFormat, "names none": timer.FirstFormat, "names two": timer.LastFormat, "names much": timer.FirstFormat, "names a word": timer.FirstFormat, "says nothing": timer.FirstFormat}
		beats := []redis.Z{}
		for node := range want {
			beats = append(beats, redis.Z{Score: float64(now.UnixMilli()), Member: node})
		}
		said := map[string]string{"names none": " -", "names two": " - 2 and more", "names much": " - 999", "names a word": " - two"}
		for node, text := range said {
			said[node] = fmt.Sprint(now.UnixMilli(), now.UnixMilli(), text)
		}
		if err := errors.Join(shard.client.ZAdd(t.Context(), nodesKey("http"), beats...).Err(), shard.client.HSet(t.Context(), clocksKey("http"), said).Err()); err != nil {
			t.Fatal(err)
		}
		heard, err := s.Beat(t.Context(), "a", store.Announcement{Clock: now, Format: timer.LastFormat})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, node := range heard.Nodes {
			got[node.Name] = node.Format
		}
		if !maps.Equal(got, want) {
			t.Errorf("formats %v, want %v", got, want)
		}
	})
}

// Whatever somebody has written among the decisions about destinations, a heartbeat tells of the readable decisions
// alone, and the rest is removed.
func TestHostileDecisionsAreForgotten(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		now, err := shard.client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		stamp := func(ago time.Duration) string { return timer.VersionAt(now.Add(-ago), 7).String() }
		const good, old = "http://good:80", "http://kept:80"
		said := map[string]string{
			good: stamp(0) + " 2000000000000", old: stamp(timing.DecisionLife-time.Minute) + " 0 words of a later chronos",
			"http://older:80": stamp(timing.DecisionLife+time.Minute) + " 2000000000000", "http://ahead:80": stamp(-timing.MaxClockAhead-time.Minute) + " 2000000000000",
			"http://a b:80": stamp(0) + " 2000000000000", "": stamp(0), "http://word:80": "s3cret", "http://nothing:80": "", "http://short:80": "12 13",
			"http://long:80": stamp(0) + "0 13", "http://letters:80": "zzzzzzzzzzzzzzzz 13", "http://negative:80": stamp(0) + " -1", "http://huge:80": stamp(0) + " " + strings.Repeat("9", 400),
		}
		if err := shard.client.HSet(t.Context(), pausesKey("http"), said).Err(); err != nil {
			t.Fatal(err)
		}
		heard, err := s.Beat(t.Context(), "a", store.Announcement{Clock: now})
		if err != nil || len(heard.Nodes) != 1 {
			t.Fatalf("beat: %+v, %v", heard, err)
		}
		var names []string
		for _, d := range heard.Decisions {
			names = append(names, d.Destination)
		}
		slices.Sort(names)
		if want := []string{good, old}; !slices.Equal(names, want) {
			t.Errorf("heard of %q, want %q", names, want)
		}
		left, err := shard.client.HLen(t.Context(), pausesKey("http")).Result()
		if err != nil || left != 2 {
			t.Errorf("%d decisions are left, %v; want 2", left, err)
		}
		if err := shard.client.HSet(t.Context(), pausesKey("http"), strings.Repeat("x", store.MaxDestination+1), stamp(0)+" 2000000000000").Err(); err != nil {
			t.Fatal(err)
		}
		if heard, err := s.Beat(t.Context(), "a", store.Announcement{Clock: now}); err != nil || len(heard.Decisions) != 2 {
			t.Errorf("heard of %d decisions, %v; want none with a name that is too long", len(heard.Decisions), err)
		}
		d := store.Decision{Destination: good, Stamp: timer.VersionAt(now, 8)}
		if latest, err := s.Decide(t.Context(), "a", []store.Decision{d}); err != nil || latest[0].Stamp != d.Stamp {
			t.Errorf("decide: %+v, %v", latest, err)
		}
	})
}

// No node announces itself for a time to come: the node would count as alive for ever, and keep live nodes from the
// partitions.
func TestAnnouncementsOfTimesToComeAreDropped(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		now, err := shard.client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		announced := []redis.Z{{Score: float64(now.UnixMilli()), Member: "another"}, {Score: math.Inf(1), Member: "for ever"}}
		for i := range 50 {
			announced = append(announced, redis.Z{Score: float64(now.Add(time.Duration(i+1) * time.Minute).UnixMilli()), Member: fmt.Sprint("ghost", i)})
		}
		if err := shard.client.ZAdd(t.Context(), nodesKey("http"), announced...).Err(); err != nil {
			t.Fatal(err)
		}
		said, err := s.Beat(t.Context(), "a", store.Announcement{Clock: now})
		nodes := namesOfLive(said)
		slices.Sort(nodes)
		if want := []string{"another", "node"}; err != nil || !slices.Equal(nodes, want) {
			t.Errorf("live nodes are %q, %v; want %q", nodes, err, want)
		}
		if left, err := shard.client.ZCard(t.Context(), nodesKey("http")).Result(); err != nil || left != 2 {
			t.Errorf("%d announcements are left, %v; want 2", left, err)
		}
	})
}
