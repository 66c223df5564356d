package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/api"
	"chronos/api/wire"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// cabinet holds dead letters in memory.
type cabinet struct {
	letters []store.Letter
	refused string // id of a superseded dead letter
	loops   bool   // the cursor stands still
	away    []string
}

var _ api.Letters = (*cabinet)(nil)

func (c *cabinet) List(_ context.Context, q store.LetterQuery) (page store.LetterPage, err error) {
	q.Limit = min(q.Limit, 40) // pages may be short
	page.Total, page.Unreached = int64(len(c.letters)), c.away
	for i := range c.letters {
		l := &c.letters[i]
		if l.ID <= q.Cursor && !c.loops || !q.Filter.Picks(l) {
			continue
		}
		if len(page.Letters) == q.Limit {
			page.Next = page.Letters[q.Limit-1].ID
			break
		}
		page.Letters = append(page.Letters, *l)
	}
	return page, nil
}

func (c *cabinet) Letter(_ context.Context, id string) (store.Letter, error) {
	for _, l := range c.letters {
		if l.ID == id {
			return l, nil
		}
	}
	return store.Letter{}, timer.ErrNotFound
}

func (c *cabinet) remove(l *store.Letter) error {
	if l.ID == c.refused {
		return timer.ErrSuperseded
	}
	c.letters = slices.DeleteFunc(slices.Clone(c.letters), func(o store.Letter) bool { return o.ID == l.ID })
	return nil
}

func (c *cabinet) Fire(ctx context.Context, id string) (timer.Receipt, error) {
	l, err := c.Letter(ctx, id)
	if err == nil {
		err = c.remove(&l)
	}
	return timer.Receipt{ID: timer.ID{Key: l.Key}}, err
}

func (c *cabinet) Delete(ctx context.Context, id string) error {
	_, err := c.Fire(ctx, id)
	return err
}

func (c *cabinet) FireAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error) {
	page, err := c.List(ctx, q)
	done := deadletter.Done{Next: page.Next, Unreached: page.Unreached}
	for _, l := range page.Letters {
		if err := c.remove(&l); err != nil {
			done.Refused = append(done.Refused, deadletter.Refused{ID: l.ID, Key: l.Key, Err: err})
			continue
		}
		done.Done++
	}
	done.Left = int64(len(c.letters))
	return done, err
}

func (c *cabinet) DeleteAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error) {
	return c.FireAll(ctx, q)
}

// filled is a cabinet with 100 dead letters, and a command line for them.
func filled(t *testing.T) (*cabinet, *rig) {
	t.Helper()
	c := &cabinet{}
	for i := range 100 {
		c.letters = append(c.letters, store.Letter{
			ID: fmt.Sprintf("id%03d", i), Shard: "a", Key: "key" + fmt.Sprint(i%2), At: time.Date(2030, 1, 31, 12, 0, i, 0, time.UTC), Reason: "answered 500",
			Record: store.Record{
				State: timer.State{Version: 1, Seq: 1, Attempt: 5},
				Timer: timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: "http://h/x", Opaque: "opaque"}},
			},
		})
	}
	c.letters[99] = store.Letter{ID: "id999", Shard: "a", Text: "\x1b[2J", Err: fmt.Errorf("%w: \x1b[2J\nx", store.ErrUnreadable)}
	return c, serveAdmin(t, api.AdminConfig{Letters: c, Authorizer: anyone{}})
}

func TestDeadList(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	for _, args := range []string{"", "list", "--limit 100"} {
		out, errs := node.run(0, "dead "+args)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 103 || errs != "" || strings.Join(strings.Fields(lines[1]), " ") != "id000 2030-01-31T12:00:00.000Z key0 5 answered 500 http://h/x" ||
			!strings.Contains(lines[100], "unreadable: ?[2J?x") || lines[102] != "100 of 100 dead letters" {
			t.Errorf("%v: %d lines, errors %q\n%s", args, len(lines), errs, out)
		}
	}
	if out, errs := node.run(0, "dead list --key=key1 --limit=45"); !strings.Contains(out, "45 of 100") || strings.Contains(out, "key0") || !strings.Contains(errs, "more") {
		t.Errorf("%s%s", out, errs)
	}
	out, _ := node.run(0, "dead --json --limit 5 --cursor id010")
	var page wire.LettersView
	if err := json.Unmarshal([]byte(out), &page); err != nil || len(page.Letters) != 5 || page.Letters[0].ID != "id011" || page.Next != "id015" {
		t.Errorf("%s, %v", out, err)
	}
	c.away = []string{"b"}
	if out, errs := node.run(3, "dead"); !strings.Contains(out, "100 of 100") || !strings.Contains(errs, "letters on b are missing") {
		t.Errorf("with a shard away: %s%s", out, errs)
	}
}

func TestDeadShow(t *testing.T) {
	t.Parallel()
	_, node := filled(t)
	out, _ := node.run(0, "dead show id001")
	for _, want := range []string{"id          id001\n", "webhook-id  key1.0000000000000001.1\n", "attempts    5\n", `"opaque": "opaque"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, _ = node.run(0, "dead show id999"); !strings.Contains(out, "problem") || !strings.Contains(out, "?[2J") {
		t.Errorf("unreadable:\n%s", out)
	}
	if out, _ = node.run(0, "dead show --json id001"); !json.Valid([]byte(out)) || !strings.Contains(out, `"attempts":5`) {
		t.Errorf("%s", out)
	}
	if out, errs := node.run(4, "dead show a/../b?c"); out != "" || !strings.Contains(errs, "there is no such dead letter") {
		t.Errorf("unknown: %s%s", out, errs)
	}
}

func TestDeadShowsTheLongest(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	body := &c.letters[1].Record.Timer.Callback.Opaque
	*body = strings.Repeat("x", 17<<20)
	if out, errs := node.run(0, "dead show --json id001"); len(out) < len(*body) || errs != "" {
		t.Errorf("%d bytes of output, %s", len(out), errs)
	}
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	if out, errs := (&rig{t: t, url: endless.URL}).run(3, "dead show id001"); out != "" || !strings.Contains(errs, "too long") {
		t.Errorf("%d bytes of output, %s", len(out), errs)
	}
}

func TestDeadFireAndDelete(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	c.refused = "id042"
	if out, _ := node.run(0, "dead fire id001"); out != "fired again as timer key1\n" {
		t.Error(out)
	}
	if out, _ := node.run(0, "dead delete id003"); out != "deleted\n" {
		t.Error(out)
	}
	if _, errs := node.run(1, "dead fire id042"); !strings.Contains(errs, "a timer with this key was set") {
		t.Error(errs)
	}
	if out, _ := node.run(0, "dead delete --key key1"); out != "deleted 47, refused 0; 51 dead letters are left\n" {
		t.Error(out)
	}
	out, errs := node.run(1, "dead fire --all")
	if out != "fired 50, refused 1; 1 dead letters are left\n" || !strings.Contains(errs, "id042 key0: a timer with this key") || len(c.letters) != 1 {
		t.Errorf("%s%s%v", out, errs, c.letters)
	}
	c.refused = ""
	c.away = []string{"b"}
	if out, errs := node.run(3, "dead fire --all"); out != "fired 1, refused 0; 0 dead letters are left\n" || !strings.Contains(errs, "letters on b are missing") {
		t.Errorf("%s%s", out, errs)
	}
}

// No command runs for ever, even if a node answers nonsense.
func TestDeadEnds(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	c.loops, c.refused = true, "id000"
	for _, args := range []string{"list --limit 1000", "fire --all"} {
		c.letters = slices.Repeat(c.letters[:1], 100)
		if _, errs := node.run(1, "dead "+args); !strings.Contains(errs, "cursor stands still") {
			t.Errorf("%v: %s", args, errs)
		}
	}
	if out, errs := nowhere(t).run(3, "dead delete --all"); out != "" || !strings.Contains(errs, "--admin-url") {
		t.Errorf("no node: %s%s", out, errs)
	}
}

func TestDeadMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"bury", "show", "fire", "delete", "show a b", "fire a b", "fire a --all", "fire --all --key k", "delete a --key k", "delete --key", "delete --key=",
		"list a", "list --all", "--all", "--limit 0", "--limit -1", "--limit x", "--cursor x", "fire --all --limit 5",
		"show a --key k", "delete --resaon x", "delete --all=x", "show a --limit 5",
	} {
		if out, errs := nowhere(t).run(2, "dead "+args); out != "" || !strings.HasPrefix(errs, "chronos: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, " --help") {
			t.Errorf("%s: out %q, errors %q", args, out, errs)
		}
	}
}

// asked notes the query of a list.
type asked struct {
	cabinet

	query store.LetterQuery
}

func (a *asked) List(_ context.Context, q store.LetterQuery) (store.LetterPage, error) {
	a.query = q
	return store.LetterPage{}, nil
}

func TestDeadTimes(t *testing.T) {
	t.Parallel()
	var a asked
	serveAdmin(t, api.AdminConfig{Letters: &a, Authorizer: anyone{}}).run(0, "dead --since 2h30m --until=2030-01-31T11:00:00Z")
	if f := a.query.Filter; !f.Since.Equal(now.Add(-150*time.Minute)) || !f.Until.Equal(now.Add(-time.Hour)) {
		t.Errorf("asked for %v to %v", f.Since, f.Until)
	}
}
