package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/api"
	"chronos/api/tokens"
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

// anyone lets everyone do everything.
type anyone struct{}

func (anyone) Check([]byte, tokens.Role, time.Time) tokens.Decision {
	return tokens.Decision{Outcome: tokens.OK, Name: "anyone"}
}

// filled is a cabinet with 100 dead letters, and the admin listener that shows the cabinet.
func filled(t *testing.T) (*cabinet, remote) {
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
	admin := api.NewAdmin(api.AdminConfig{Letters: c, Authorizer: anyone{}})
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(ln) }()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := errors.Join(admin.Shutdown(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return c, remote{url: "http://" + ln.Addr().String(), client: client}
}

// dead carries out `chronos dead` and checks the exit status.
func dead(t *testing.T, node remote, status int, args ...string) (out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if got := deadCommand(args, node, &stdout, &stderr); got != status {
		t.Errorf("%v: status %d, want %d\n%s%s", args, got, status, stdout.String(), stderr.String())
	}
	if strings.Contains(stdout.String()+stderr.String(), "\x1b") {
		t.Errorf("%v sends orders to the terminal: %q", args, stdout.String()+stderr.String())
	}
	return stdout.String(), stderr.String()
}

func TestDeadList(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	for _, args := range [][]string{nil, {"list"}, {"--limit", "100"}} {
		out, errs := dead(t, node, 0, args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 103 || errs != "" || strings.Join(strings.Fields(lines[1]), " ") != "id000 2030-01-31T12:00:00.000Z key0 5 answered 500 http://h/x" ||
			!strings.Contains(lines[100], "unreadable: ?[2J?x") || lines[102] != "100 of 100 dead letters" {
			t.Errorf("%v: %d lines, errors %q\n%s", args, len(lines), errs, out)
		}
	}
	if out, errs := dead(t, node, 0, "list", "--key=key1", "--limit=45"); !strings.Contains(out, "45 of 100") || strings.Contains(out, "key0") || !strings.Contains(errs, "more") {
		t.Errorf("%s%s", out, errs)
	}
	out, _ := dead(t, node, 0, "--json", "--limit", "5", "--cursor", "id010")
	var page wire.LettersView
	if err := json.Unmarshal([]byte(out), &page); err != nil || len(page.Letters) != 5 || page.Letters[0].ID != "id011" || page.Next != "id015" {
		t.Errorf("%s, %v", out, err)
	}
	c.away = []string{"b"}
	if out, errs := dead(t, node, 1); !strings.Contains(out, "100 of 100") || !strings.Contains(errs, "letters on b are missing") {
		t.Errorf("with a shard away: %s%s", out, errs)
	}
}

func TestDeadShow(t *testing.T) {
	t.Parallel()
	_, node := filled(t)
	out, _ := dead(t, node, 0, "show", "id001")
	for _, want := range []string{"id          id001\n", "webhook-id  key1.0000000000000001.1\n", "attempts    5\n", `"opaque": "opaque"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, _ = dead(t, node, 0, "show", "id999"); !strings.Contains(out, "problem") || !strings.Contains(out, "?[2J") {
		t.Errorf("unreadable:\n%s", out)
	}
	if out, _ = dead(t, node, 0, "show", "--json", "id001"); !json.Valid([]byte(out)) || !strings.Contains(out, `"attempts":5`) {
		t.Errorf("%s", out)
	}
	if out, errs := dead(t, node, 1, "show", "a/../b?c"); out != "" || !strings.Contains(errs, "there is no such dead letter") {
		t.Errorf("unknown: %s%s", out, errs)
	}
}

func TestDeadShowsTheLongest(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	body := &c.letters[1].Record.Timer.Callback.Opaque
	*body = strings.Repeat("x", 17<<20)
	if out, errs := dead(t, node, 0, "show", "--json", "id001"); len(out) < len(*body) || errs != "" {
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
	if out, errs := dead(t, remote{url: endless.URL, client: node.client}, 1, "show", "id001"); out != "" || !strings.Contains(errs, "longer than 128 MiB") {
		t.Errorf("%d bytes of output, %s", len(out), errs)
	}
}

func TestDeadFireAndDelete(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	c.refused = "id042"
	if out, _ := dead(t, node, 0, "fire", "id001"); out != "fired again as timer key1\n" {
		t.Error(out)
	}
	if out, _ := dead(t, node, 0, "delete", "id003"); out != "deleted\n" {
		t.Error(out)
	}
	if _, errs := dead(t, node, 1, "fire", "id042"); !strings.Contains(errs, "a timer with this key was set") {
		t.Error(errs)
	}
	if out, _ := dead(t, node, 0, "delete", "--key", "key1"); out != "deleted 47, refused 0; 51 dead letters are left\n" {
		t.Error(out)
	}
	out, errs := dead(t, node, 1, "fire", "--all")
	if out != "fired 50, refused 1; 1 dead letters are left\n" || !strings.Contains(errs, "id042 key0: a timer with this key") || len(c.letters) != 1 {
		t.Errorf("%s%s%v", out, errs, c.letters)
	}
	c.refused = ""
	c.away = []string{"b"}
	if out, errs := dead(t, node, 1, "fire", "--all"); out != "fired 1, refused 0; 0 dead letters are left\n" || !strings.Contains(errs, "letters on b are missing") {
		t.Errorf("%s%s", out, errs)
	}
}

// No command runs for ever, even if a node answers nonsense.
func TestDeadEnds(t *testing.T) {
	t.Parallel()
	c, node := filled(t)
	c.loops, c.refused = true, "id000"
	for _, args := range [][]string{{"list", "--limit", "1000"}, {"fire", "--all"}} {
		c.letters = slices.Repeat(c.letters[:1], 100)
		if _, errs := dead(t, node, 1, args...); !strings.Contains(errs, "cursor stands still") {
			t.Errorf("%v: %s", args, errs)
		}
	}
	gone := remote{url: "http://127.0.0.1:1", client: node.client}
	if out, errs := dead(t, gone, 1, "delete", "--all"); out != "" || !strings.Contains(errs, "CHRONOS_ADMIN_URL") {
		t.Errorf("no node: %s%s", out, errs)
	}
}

func TestDeadMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"bury", "show", "fire", "delete", "show a b", "fire a b", "fire a --all", "fire --all --key k", "delete a --key k", "delete --key", "delete --key=",
		"delete --key a --key b", "list a", "list --all", "--all", "--limit 0", "--limit -1", "--limit x", "--cursor x", "fire --all --limit 5", "fire --all --json",
		"show a --key k", "delete --resaon x", "delete --all=x", "-h", "show a --limit 5",
	} {
		var out, errs strings.Builder
		if status := deadCommand(strings.Split(args, " "), remote{}, &out, &errs); status != 2 || out.Len() != 0 || !strings.HasPrefix(errs.String(), "chronos: ") {
			t.Errorf("%s: status %d, out %q, errors %q", args, status, out.String(), errs.String())
		}
	}
}

func TestDeadTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	order, err := parseDead([]string{"--since", "2h30m", "--until=2030-01-31T11:00:00Z"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if got := cmp.Or(order.filter.Get("since"), "none") + " " + order.filter.Get("until"); got != "2030-01-31T09:30:00Z 2030-01-31T11:00:00Z" {
		t.Error(got)
	}
}
