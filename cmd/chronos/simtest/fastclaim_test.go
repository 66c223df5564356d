package simtest

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; it protects nothing here.
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chronos/lua"
)

// fastClaim answers heartbeats, and claims that find nothing, as the scripts would, but runs no script.
// Nearly all calls of a quiet cluster are of these two kinds, and starting a Lua state costs more than
// everything else. The claim's header names the arguments. A nil fastClaim answers nothing.
type fastClaim struct {
	sha, several, beat  string // several: claims of several partitions in one call
	horizonMs, notAfter int    // indexes into the claim's ARGV

	mu    sync.Mutex
	known map[knows]bool
}

// knows is a shard and a script that the shard has run.
type knows struct {
	mini *miniredis.Miniredis
	sha  string
}

func newFastClaim(t testing.TB) *fastClaim {
	t.Helper()
	source := lua.Scripts()["claim"]
	_, header, _ := strings.Cut(source, "-- ARGV:")
	header, _, _ = strings.Cut(header, "(")
	names := strings.Fields(strings.ReplaceAll(header, "--", ""))
	f := &fastClaim{
		sha: shaOf(source), several: shaOf(lua.ForPartitions()["claim"]), beat: shaOf(lua.Scripts()["beat"]), known: map[knows]bool{},
		horizonMs: slices.Index(names, "horizon_ms"), notAfter: slices.Index(names, "not_after_ms"),
	}
	if f.horizonMs < 0 || f.notAfter < 0 {
		t.Fatalf("the header of claim names no horizon_ms or not_after_ms: %q", names)
	}
	return f
}

func shaOf(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// knew reports whether the shard has run the script, and notes the script as run. A shard must run each
// script once, so that a shard without the script says so.
func (f *fastClaim) knew(mini *miniredis.Miniredis, sha string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.known[knows{mini, sha}]
	f.known[knows{mini, sha}] = true
	return known
}

// beats carries out a heartbeat. said holds the age of the latest earlier heartbeat, the reading of the
// fastest clock, no decisions about destinations, and the live nodes with the shards that they lack and the formats that they read. ok is
// false if args, of an EVALSHA, are no heartbeat.
func (f *fastClaim) beats(mini *miniredis.Miniredis, args []string, now time.Time) (said []string, ok bool) {
	if f == nil || len(args) != 16 || args[0] != f.beat || !f.knew(mini, f.beat) || mini.Exists(args[4]) { // pauses are for the script
		return nil, false
	}
	key, clocks, node := args[2], args[3], args[6]
	deadAfterMs, err := strconv.ParseInt(args[7], 10, 64)
	if err != nil {
		return nil, false
	}
	clockMs, err := strconv.ParseInt(args[8], 10, 64)
	if err != nil {
		return nil, false
	}
	maxAheadMs, err := strconv.ParseInt(args[9], 10, 64)
	if err != nil {
		return nil, false
	}
	forgetMs, err := strconv.ParseInt(args[12], 10, 64)
	if err != nil {
		return nil, false
	}
	scores := map[string]float64{}
	if mini.Exists(key) {
		if scores, err = mini.SortedSet(key); err != nil {
			return nil, false
		}
	}
	for id, score := range scores {
		if int64(score) > now.UnixMilli() {
			delete(scores, id)
			_, _ = mini.ZRem(key, id) // the member exists
		}
	}
	gap := "-1"
	if len(scores) > 0 {
		gap = strconv.FormatInt(now.UnixMilli()-int64(slices.Max(slices.Collect(maps.Values(scores)))), 10)
	}
	delete(scores, node)
	_, _ = mini.ZRem(key, node) // the member may exist
	if guest := args[15] == "1"; !guest {
		scores[node] = float64(now.UnixMilli())
	}
	for id, score := range scores {
		if int64(score) < now.UnixMilli()-deadAfterMs {
			delete(scores, id)
			_, _ = mini.ZRem(key, id) // the member exists
		}
	}
	if at, is := scores[node]; is {
		_, _ = mini.ZAdd(key, at, node) // the key is a sorted set
	}
	tell(mini, args[5], node, args[13], now.UnixMilli(), forgetMs, scores)
	shows, announced := fastest(mini, clocks, node, args[10]+" "+args[14], now, deadAfterMs, clockMs, maxAheadMs)
	said = []string{gap, shows, ""}
	for _, id := range slices.SortedFunc(maps.Keys(scores), func(a, b string) int {
		return cmp.Or(cmp.Compare(scores[a], scores[b]), cmp.Compare(a, b))
	}) {
		of := announced[id]
		said = append(said, id, cmp.Or(of.lacks, "-"), cmp.Or(of.format, "1"))
	}
	return said, true
}

// tell keeps what a node tells of itself, and forgets what nodes that are not live have told long ago.
func tell(mini *miniredis.Miniredis, status, node, text string, nowMs, forgetMs int64, live map[string]float64) {
	if text != "" {
		mini.HSet(status, node, fmt.Sprintf(`{"at_ms":%d,%s`, nowMs, text))
	}
	all, _ := mini.HKeys(status) // no key, no text
	for _, id := range all {
		var atMs int64
		_, _ = fmt.Sscanf(mini.HGet(status, id), `{"at_ms":%d,`, &atMs) // any other text is forgotten
		if _, is := live[id]; !is && max(nowMs-atMs, atMs-nowMs) > forgetMs {
			mini.HDel(status, id)
		}
	}
}

// announced are the shards that a node lacks, and the last format that the node reads.
type announced struct{ lacks, format string }

// fastest announces a node's clock and words. fastest returns the reading of the fastest clock, and the words of all nodes.
func fastest(mini *miniredis.Miniredis, clocks, node, words string, now time.Time, deadAfterMs, clockMs, maxAheadMs int64) (shows string, said map[string]announced) {
	nowMs, fastestMs := now.UnixMilli(), clockMs
	said = make(map[string]announced)
	mini.HSet(clocks, node, fmt.Sprint(clockMs, nowMs, " "+words))
	all, _ := mini.HKeys(clocks) // the key exists
	for _, of := range all {
		var showedMs, atMs int64
		var words announced
		_, _ = fmt.Sscan(mini.HGet(clocks, of), &showedMs, &atMs, &words.lacks, &words.format) // it was announced
		said[of] = words
		ageMs := nowMs - atMs
		showsMs := showedMs + max(0, min(ageMs, deadAfterMs))
		broken := showsMs > clockMs+maxAheadMs
		if !broken {
			fastestMs = max(fastestMs, showsMs)
		}
		if max(ageMs, -ageMs) > deadAfterMs && (broken || showsMs <= clockMs) {
			mini.HDel(clocks, of)
		}
	}
	return strconv.FormatInt(fastestMs, 10), said
}

// answers reports whether args, of an EVALSHA, are claims that find nothing now, and in how many partitions of
// one call; 0 partitions for a claim of one partition by itself.
func (f *fastClaim) answers(mini *miniredis.Miniredis, args []string, now time.Time) (partitions int, ok bool) {
	if f == nil || len(args) < 3 || args[0] != f.sha && args[0] != f.several {
		return 0, false
	}
	known := f.knew(mini, args[0])
	n, err := strconv.Atoi(args[1])
	if err != nil || !known || n < 1 || len(args) <= 2+n {
		return 0, false
	}
	keys, argv := args[2:2+n], args[2+n:]
	if args[0] == f.sha {
		return 0, f.findsNone(mini, keys, argv, now)
	}
	width, err := strconv.Atoi(argv[0])
	if err != nil || width < 1 || len(keys)%width != 0 {
		return 0, false
	}
	argv = argv[1:]
	for ; len(keys) > 0; keys = keys[width:] {
		if len(argv) == 0 {
			return 0, false
		}
		m, err := strconv.Atoi(argv[0])
		if err != nil || m < 0 || len(argv) <= m || !f.findsNone(mini, keys[:width], argv[1:1+m], now) {
			return 0, false
		}
		argv, partitions = argv[1+m:], partitions+1
	}
	return partitions, true
}

// findsNone reports whether the claim of a partition is in time, and finds nothing now.
func (f *fastClaim) findsNone(mini *miniredis.Miniredis, keys, argv []string, now time.Time) bool {
	if len(argv) <= max(f.horizonMs, f.notAfter) {
		return false
	}
	horizonMs, err := strconv.ParseInt(argv[f.horizonMs], 10, 64)
	if err != nil {
		return false
	}
	notAfterMs, err := strconv.ParseInt(argv[f.notAfter], 10, 64)
	if err != nil || now.UnixMilli() > notAfterMs {
		return false
	}
	if !mini.Exists(keys[0]) {
		return true
	}
	scores, err := mini.SortedSet(keys[0])
	if err != nil {
		return false
	}
	for _, score := range scores {
		if int64(score) <= now.UnixMilli()+horizonMs {
			return false
		}
	}
	return true
}

// forget notes that a shard lost its scripts.
func (f *fastClaim) forget(mini *miniredis.Miniredis) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.known, func(k knows, _ bool) bool { return k.mini == mini })
}
