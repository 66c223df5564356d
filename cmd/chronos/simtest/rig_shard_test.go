package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chronos/lua"
	"chronos/scheduler/timer"
)

// probe is a shard with one link and a client whose answers may take 500 ms.
type probe struct {
	*shard
	link   *link
	client *redis.Client
}

func newProbe(t *testing.T, fast *fastClaim) *probe {
	t.Helper()
	s := newShard(t, "a", fast)
	l := newLink("n", "a", s.accept)
	s.links = []*link{l}
	p := &probe{shard: s, link: l, client: redis.NewClient(&redis.Options{
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx, nil) },
		Protocol: 2, MaxRetries: -1, ReadTimeout: 500 * time.Millisecond, ContextTimeoutEnabled: true, DialerRetries: 1, PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	t.Cleanup(func() {
		_ = p.client.Close()
		s.close()
	})
	return p
}

func (p *probe) set(t *testing.T, key, value string) error {
	t.Helper()
	return p.client.Set(t.Context(), key, value, 0).Err()
}

func (p *probe) get(t *testing.T, key string) string {
	t.Helper()
	value, err := p.client.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Errorf("get %s: %v", key, err)
	}
	return value
}

func wantError(t *testing.T, what string, err error, say string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), say) {
		t.Errorf("%s: %v, want an error that says %q", what, err, say)
	}
}

func TestShardPauses(t *testing.T) {
	inBubble(t, "what was sent is executed when it wakes", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "before")
		resume := p.pause()
		begun := time.Now()
		wantError(t, "set while it is paused", p.set(t, "key", "late"), "timeout")
		if took := time.Since(begun); took != 500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		_ = p.client.Close() // the client has gone
		synctest.Wait()
		if got, _ := p.mini.Get("key"); got != "before" {
			t.Errorf("executed %q while it was paused", got)
		}
		resume()
		synctest.Wait()
		if got, _ := p.mini.Get("key"); got != "late" {
			t.Errorf("%q is there when it wakes, want what was sent meanwhile", got)
		}
	})
	inBubble(t, "connections are taken meanwhile", func(t *testing.T) {
		p := newProbe(t, nil)
		resume := p.pause()
		time.AfterFunc(300*time.Millisecond, resume)
		begun := time.Now()
		if err := p.set(t, "key", "value"); err != nil || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("set: %v after %v, want it done when the shard wakes", err, time.Since(begun))
		}
	})
	inBubble(t, "killed meanwhile it executes nothing", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "before")
		resume := p.pause()
		wantError(t, "set while it is paused", p.set(t, "key", "late"), "timeout")
		p.kill()
		resume()
		p.restart()
		synctest.Wait()
		if got := p.get(t, "key"); got != "before" {
			t.Errorf("%q is there after the restart", got)
		}
	})
}

func TestShardIsSlow(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "value")
		lift := p.slowDown(100 * time.Millisecond)
		begun := time.Now()
		pipe := p.client.Pipeline()
		pipe.Get(t.Context(), "key")
		pipe.Get(t.Context(), "key")
		if _, err := pipe.Exec(t.Context()); err != nil || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("two commands: %v after %v", err, time.Since(begun))
		}
		lift()
		begun = time.Now()
		if p.get(t, "key"); time.Since(begun) != 0 {
			t.Errorf("slow after it was lifted: %v", time.Since(begun))
		}
	})
}

func TestShardLosesAnswers(t *testing.T) {
	for name, condition := range map[string]Condition{"breaks": LoseAnswers, "hangs": HangAnswers} {
		inBubble(t, name, func(t *testing.T) {
			p := newProbe(t, nil)
			_ = p.set(t, "key", "before")
			lift := p.link.impose(condition)
			if err := p.set(t, "key", "after"); err == nil {
				t.Error("the answer came")
			}
			if got, _ := p.mini.Get("key"); got != "after" {
				t.Errorf("%q is there: it was not executed", got)
			}
			lift()
			if got := p.get(t, "key"); got != "after" {
				t.Errorf("%q is there", got)
			}
		})
	}
}

func TestShardDies(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "value")
		sha := p.client.ScriptLoad(t.Context(), "return 1").Val()
		p.kill()
		wantError(t, "connecting to a dead shard", p.set(t, "key", "lost"), "refused")
		p.restart()
		if got := p.get(t, "key"); got != "value" {
			t.Errorf("%q is there, want what was there", got)
		}
		wantError(t, "a script of before", p.client.EvalSha(t.Context(), sha, nil).Err(), "NOSCRIPT")
	})
}

func TestShardLosesData(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		p := newProbe(t, nil)
		fill := func(text string) {
			p.client.Set(t.Context(), "string "+text, text, 0)
			p.client.HSet(t.Context(), "hash", text, text)
			p.client.ZAdd(t.Context(), "sorted", redis.Z{Score: 1.5, Member: text})
		}
		fill("old")
		old, err := p.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		fill("new")
		if err := p.restore(old); err != nil {
			t.Fatal(err)
		}
		again, err := p.snapshot()
		if diff := cmp.Diff(old, again, cmp.AllowUnexported(snapshot{})); err != nil || diff != "" {
			t.Errorf("%v (-copied +restored):\n%s", err, diff)
		}
		if n, got := p.client.DBSize(t.Context()).Val(), p.client.HGetAll(t.Context(), "hash").Val(); n != 3 || len(got) != 1 || got["old"] != "old" {
			t.Errorf("%d keys, hash %v", n, got)
		}
		p.wipe()
		if n := p.client.DBSize(t.Context()).Val(); n != 0 || p.link.dialed() != 1 {
			t.Errorf("%d keys are left, %d connections were made; want none and one", n, p.link.dialed())
		}
		p.client.LPush(t.Context(), "list", "x")
		if _, err := p.snapshot(); err == nil {
			t.Error("a snapshot leaves a list out")
		}
	})
}

func TestShardsClock(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		p := newProbe(t, nil)
		read := func() time.Duration {
			script, err := p.client.Eval(t.Context(), "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", nil).Int64()
			if plain := p.client.Time(t.Context()).Val(); err != nil || plain.UnixMicro() != script {
				t.Errorf("TIME is %v, in a script %v, %v", plain, script, err)
			}
			return time.Until(time.UnixMicro(script))
		}
		for _, want := range []time.Duration{0, 5 * time.Second, -time.Minute} {
			p.mu.Lock()
			now := p.ahead
			p.mu.Unlock()
			p.step(want - now)
			for range 3 {
				time.Sleep(1234567 * time.Microsecond)
				if got := read(); got != want {
					t.Errorf("%v ahead, want %v", got, want)
				}
			}
		}
	})
}

func TestShardRefuses(t *testing.T) {
	const writes, reads = "return redis.call('SET', 'key', 'script')", "return redis.call('GET', 'key')"
	const removesFirst = "redis.call('DEL', 'other') return redis.call('SET', 'key', 'second')"
	inBubble(t, "READONLY", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "value")
		lift := p.refuseAll(ReadOnly)
		wantError(t, "set", p.set(t, "key", "no"), "READONLY")
		err := p.client.Eval(t.Context(), writes, nil).Err()
		if wantError(t, "a script that writes", err, "READONLY"); err != nil && !strings.HasPrefix(err.Error(), "READONLY") {
			t.Errorf("error %q doesn't begin as that of Redis", err)
		}
		wantError(t, "a script that removes", p.client.Eval(t.Context(), removesFirst, nil).Err(), "READONLY")
		if got, err := p.client.Eval(t.Context(), reads, nil).Text(); err != nil || got != "value" {
			t.Errorf("a script that reads: %q, %v", got, err)
		}
		lift()
		if err := p.set(t, "key", "yes"); err != nil {
			t.Errorf("set afterwards: %v", err)
		}
	})
	inBubble(t, "OOM", func(t *testing.T) {
		p := newProbe(t, nil)
		defer p.refuseAll(OutOfMemory)()
		wantError(t, "set", p.set(t, "key", "no"), "OOM")
		wantError(t, "a script that adds", p.client.Eval(t.Context(), writes, nil).Err(), "OOM")
		if err := p.client.Eval(t.Context(), removesFirst, nil).Err(); err != nil || p.get(t, "key") != "second" {
			t.Errorf("a script that removes something first: %v", err)
		}
		if err := p.client.Del(t.Context(), "key").Err(); err != nil {
			t.Errorf("del: %v", err)
		}
	})
	for name, refusal := range map[string]Refusal{"LOADING": Loading, "BUSY": Busy} {
		inBubble(t, name, func(t *testing.T) {
			p := newProbe(t, nil)
			_ = p.set(t, "key", "value")
			lift := p.refuseAll(refusal)
			wantError(t, "get", p.client.Get(t.Context(), "key").Err(), name)
			wantError(t, "a script", p.client.Eval(t.Context(), reads, nil).Err(), name)
			lift()
			if got := p.get(t, "key"); got != "value" {
				t.Errorf("%q afterwards", got)
			}
		})
	}
	inBubble(t, "NOSCRIPT", func(t *testing.T) {
		p := newProbe(t, nil)
		sha := p.client.ScriptLoad(t.Context(), reads).Val()
		if err := p.client.EvalSha(t.Context(), sha, nil).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Errorf("before: %v", err)
		}
		p.forgetScripts()
		wantError(t, "a script of before", p.client.EvalSha(t.Context(), sha, nil).Err(), "NOSCRIPT")
	})
}

// TestFastClaim: a claim answered without the script has the script's answer.
func TestFastClaim(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		fast := newFastClaim(t)
		short, whole := newProbe(t, fast), newProbe(t, nil)
		r := rand.New(rand.NewPCG(1, 2))
		source := lua.Scripts()["claim"]
		for range 2 {
			for _, p := range []*probe{short, whole} {
				if err := p.client.Eval(t.Context(), source, []string{"none", "none", "none"}, claimArgs(0, time.Now().Add(time.Second))...).Err(); err != nil {
					t.Fatalf("run the script: %v", err)
				}
			}
			fast.answers(short.mini, []string{fast.sha, "0", "x"}, time.Now())
			for range 200 {
				time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond)
				horizon := r.IntN(200)
				keys := []string{"due", "timers", "leases"}
				if r.IntN(3) == 0 {
					short.wipe()
					whole.wipe()
				}
				score := float64(time.Now().UnixMilli() + int64(r.IntN(400)) - 100)
				var answers [2]string
				args := claimArgs(horizon, time.Now().Add(time.Duration(r.IntN(3)-1)*time.Second))
				member := fmt.Sprint(r.IntN(5))
				for i, p := range []*probe{short, whole} {
					p.client.ZAdd(t.Context(), "due", redis.Z{Score: score, Member: member})
					answer, err := p.client.EvalSha(t.Context(), fast.sha, keys, args...).Slice()
					answers[i] = fmt.Sprint(answer, err)
				}
				if answers[0] != answers[1] {
					t.Fatalf("score %v, horizon %d: answered %s, the script says %s", score, horizon, answers[0], answers[1])
				}
			}
			short.forgetScripts()
			wantError(t, "a claim after its script was forgotten",
				short.client.EvalSha(t.Context(), fast.sha, []string{"due", "timers", "leases"}, claimArgs(0, time.Now().Add(time.Second))...).Err(), "NOSCRIPT")
		}
		if c := short.counts(); c.shortened < 50 || c.scripts-c.shortened < 50 {
			t.Errorf("of %d calls %d were not run: too few of either", c.scripts, c.shortened)
		}
	})
}

// TestFastBeat: a heartbeat answered without the script has the script's answer.
func TestFastBeat(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		fast := newFastClaim(t)
		short, whole := newProbe(t, fast), newProbe(t, nil)
		beatKeys := []string{"nodes", "clocks", "pauses", "status"}
		r := rand.New(rand.NewPCG(3, 4))
		for range 2 {
			for _, p := range []*probe{short, whole} {
				if err := p.client.Eval(t.Context(), lua.Scripts()["beat"], beatKeys, "first", 3000, 1000, 1000, "-", 90_000_000, 10_000, "", 2, 0).Err(); err != nil {
					t.Fatalf("run the script: %v", err)
				}
			}
			fast.knew(short.mini, fast.beat)
			for range 200 {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
				node, life := fmt.Sprint("n", r.IntN(8)), 500+r.IntN(4000)
				clock := time.Now().UnixMilli() + int64(r.IntN(20_000)) - 10_000
				lacks, format := []string{"-", "a", "a,b"}[r.IntN(3)], 1+r.IntN(2)
				text := []string{"", `"host":"h"}`}[r.IntN(2)]
				paused, guest := r.IntN(50) == 0, r.IntN(5)/4
				var answers [2]string
				for i, p := range []*probe{short, whole} {
					p.client.Del(t.Context(), "pauses")
					if paused {
						stamp := timer.VersionAt(time.Now(), 1).String()
						p.client.HSet(t.Context(), "pauses", "http://receiver:80", stamp+" 2000000000000")
					}
					answer, err := p.client.EvalSha(t.Context(), fast.beat, beatKeys, node, life, clock, 15_000, lacks, 90_000_000, 10_000, text, format, guest).Slice()
					left, leftErr := p.client.ZRangeWithScores(t.Context(), "nodes", 0, -1).Result()
					clocks, clocksErr := p.client.HGetAll(t.Context(), "clocks").Result()
					told, toldErr := p.client.HGetAll(t.Context(), "status").Result()
					answers[i] = fmt.Sprint(answer, err, left, leftErr, clocks, clocksErr, told, toldErr)
				}
				if answers[0] != answers[1] {
					t.Fatalf("answered %s, the script says %s", answers[0], answers[1])
				}
			}
			short.forgetScripts()
			wantError(t, "a beat after its script was forgotten",
				short.client.EvalSha(t.Context(), fast.beat, beatKeys, "n", 1000, 0, 0, "-", 90_000_000, 10_000, "", 2, 0).Err(), "NOSCRIPT")
			lift := short.refuseAll(ReadOnly)
			whole.forgetScripts()
			if err := short.client.Eval(t.Context(), lua.Scripts()["beat"], beatKeys, "n", 1000, 0, 0, "-", 90_000_000, 10_000, "", 2, 0).Err(); err == nil {
				t.Error("a beat was answered by a replica")
			}
			lift()
		}
		if c := short.counts(); c.shortened < 390 {
			t.Errorf("of %d calls only %d were not run", c.scripts, c.shortened)
		}
	})
}

// claimArgs returns the arguments of the script, by the names in the script's header.
func claimArgs(horizonMs int, notAfter time.Time) []any {
	_, header, _ := strings.Cut(lua.Scripts()["claim"], "-- ARGV:")
	header, _, _ = strings.Cut(header, "(")
	var args []any
	for name := range strings.FieldsSeq(strings.ReplaceAll(header, "--", "")) {
		switch name {
		case "horizon_ms":
			args = append(args, horizonMs)
		case "not_after_ms":
			args = append(args, notAfter.UnixMilli())
		case "limit", "max_bytes", "grace_ms":
			args = append(args, 1000)
		case "node":
			args = append(args, "n")
		default:
			args = append(args, 0)
		}
	}
	return args
}

// TestShardIsScanned: a scan finds all lasting members, even if found members are removed meanwhile.
func TestShardIsScanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(t, nil)
		for i := range 300 {
			if err := p.client.ZAdd(t.Context(), "z", redis.Z{Score: float64(i) / 2, Member: fmt.Sprint(i)}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		found := map[string]string{}
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			pairs, next, err := p.client.ZScan(t.Context(), "z", cursor, "", 100).Result()
			if err != nil {
				t.Fatal(err)
			}
			cursor = next
			for i := 0; i < len(pairs); i += 2 {
				found[pairs[i]] = pairs[i+1]
				p.client.ZRem(t.Context(), "z", pairs[i])
			}
		}
		if len(found) != 300 || found["7"] != "3.5" {
			t.Errorf("%d of 300 found, 7 at %s", len(found), found["7"])
		}
		if pairs, _, err := p.client.ZScan(t.Context(), "none", 0, "", 100).Result(); err != nil || len(pairs) > 0 {
			t.Errorf("of nothing %v, %v", pairs, err)
		}
	})
}
