package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"chronos/api/client"
	"chronos/api/ui/uitest"
)

func sample() *uitest.Backend { return uitest.New().Sample() }

func TestListTimers(t *testing.T) {
	t.Parallel()
	b := sample()
	r := serve(t, b)
	out, errs := r.run(Done, "timer list --all")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if !strings.HasPrefix(lines[0], "ID ") || len(lines) < 10 || errs != "" {
		t.Fatalf("%s%s", out, errs)
	}
	few, errs := r.run(Done, "timer list --limit 3")
	if got := strings.Count(few, "\n"); got != 4 || !strings.Contains(errs, "--all") {
		t.Errorf("%d lines: %s%s", got, few, errs)
	}
	asJSON, _ := r.run(Done, "timer list --all --json")
	found := strings.Split(strings.TrimSpace(asJSON), "\n")
	var first client.ListedTimer
	if err := json.Unmarshal([]byte(found[0]), &first); err != nil || len(found) != len(lines)-1 || !strings.HasPrefix(lines[1], first.ID) {
		t.Errorf("%d timers, the first %+v, %v", len(found), first, err)
	}
	if out, _ := r.run(Done, "timer list -o json --key "+first.Key); strings.Count(out, "\n") != 1 {
		t.Error(out)
	}
	b.SetAway("b")
	if _, errs := r.run(Unreachable, "timer list"); !strings.Contains(errs, "the timers on b are missing") {
		t.Error(errs)
	}
}

func TestChangeTimers(t *testing.T) {
	t.Parallel()
	b := sample()
	r := serve(t, b)
	all, _ := r.run(Done, "timer list --all --json")
	var one client.ListedTimer
	if err := json.Unmarshal([]byte(strings.Split(all, "\n")[0]), &one); err != nil {
		t.Fatal(err)
	}
	if out, _ := r.run(Done, "timer fire "+one.Key); !strings.Contains(out, one.Key) {
		t.Error(out)
	}
	if out, _ := r.run(Done, "timer delay --by 10m --json "+one.Key); !strings.Contains(out, `"id":"`+one.Key) {
		t.Error(out)
	}
	if _, errs := r.run(Missing, "timer fire nobody"); !strings.HasPrefix(errs, "chronos: nobody: ") {
		t.Error(errs)
	}
	count := strings.Count(all, "\n")
	out, _ := r.run(Done, "timer delete --all --dry-run --json")
	var counted client.BulkResult
	if err := json.Unmarshal([]byte(out), &counted); err != nil || counted.Done != count {
		t.Errorf("%s, %v; want %d", out, err, count)
	}
	if _, errs := r.run(Misused, "timer delete --all"); !strings.Contains(errs, "give --yes") {
		t.Error(errs)
	}
	if out, errs := r.run(Refused, "timer delete --all --yes"); !strings.Contains(out, "refused 1") || !strings.Contains(errs, "other requests wrote this timer") {
		t.Errorf("%s%s", out, errs)
	}
	if out, _ := r.run(Done, "timer list --all --json"); strings.Count(out, "\n") != 1 {
		t.Errorf("left: %s", out)
	}
}

func TestTimerMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "bury", "get", "get a b", "cancel", "watch", "create", "create --in 5s", "create --to http://h/", "create --in 5s --at 2030-01-01T00:00:00Z --to http://h/",
		"create --every 5s --to http://h/", "create --for 5s --in 5s --to http://h/", "create --at noon --to http://h/", "create --in 5s --to http://h/ --tag a=b",
		"create --in 5s --to http://h/ --header x", "create --in 5s --to http://h/ --header x:1 --header x:2", "create -f /nonexistent", "create -f - --to http://h/",
		"create --id a --idempotency-key b --in 5s --to http://h/", "create --in 5s --to http://h/ --body @/nonexistent", "list --limit 0", "list --all --limit 5", "list a",
		"list --due-before noon", "list --state lost", "list --text ab", "list --url http://h", "cancel a --admin-url http://h", "create --every 5s --for 0s --to http://h/", "create --in 5s --to http://h/ --copies 0", "create --in 5s --to http://h/ --tag a=0", "fire", "fire a --all", "fire --all --prefix p", "fire a --dry-run", "delay a", "delay a --by 0s", "delay a --by x", "delete", "delete a",
		"list -o xml", "list --timeout 0s", "list --admin-url nowhere", "get a --url http://u:p@h",
	} {
		if out, errs := nowhere(t).run(Misused, "timer "+args); out != "" || !strings.HasPrefix(errs, "chronos: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, " --help") {
			t.Errorf("%s: out %q, errors %q", args, out, errs)
		}
	}
}
