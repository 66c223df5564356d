package uitest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/api"
	"chronos/api/ui/uitest"
	"chronos/scheduler/timer"
)

var (
	shots    = flag.String("shots", "", "folder for screenshots of all pages, light and dark, wide and narrow")
	pictures = flag.Bool("pictures", false, "take the pictures of docs/dashboard.md")
)

// serve serves the dashboard as the admin listener serves the dashboard.
func serve(t *testing.T, b *uitest.Backend) (rig *uitest.Rig, origin string) {
	t.Helper()
	rig = uitest.NewRig(t, b, nil)
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin := api.NewAdmin(api.AdminConfig{Dashboard: rig.UI})
	ended := make(chan error, 1)
	go func() { ended <- admin.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the test's context has ended
		defer cancel()
		if err := errors.Join(admin.Shutdown(ctx), <-ended); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	return rig, "http://" + ln.Addr().String()
}

// everyPage are the paths of all kinds of pages, by a name for a file.
func everyPage() [][2]string {
	return [][2]string{
		{"overview", ""}, {"timers", "timers"}, {"timers-filtered", "timers?key-prefix=user-&limit=5"}, {"timer", "timers/order-48213-reminder"},
		{"timer-retrying", "timers/invoice-2231"}, {"timer-hostile", "timers/hostile?opaque=shown"}, {"timer-delete", "timers/hostile/delete"}, {"timer-delay", "timers/hostile/delay"},
		{"dead", "dead"}, {"dead-group", "dead?destination=http%3A%2F%2Fbilling.internal%3A8080&reason-is=status+503"}, {"letter", "dead/a.0041?opaque=shown"}, {"letter-unreadable", "dead/a.0042"},
		{"destinations", "destinations"}, {"destination-pause", "destinations/pause?destination=https%3A%2F%2Forders.example.com%3A443"},
		{"cluster", "cluster"}, {"cluster-add", "cluster/add"}, {"shard-drain", "cluster/b/drain"}, {"shard-remove", "cluster/b/remove"}, {"help", "help"},
	}
}

// look waits until the live parts of a page were asked for once, and checks what holds for every page: a
// quiet console, and no text of a timer as markup or script.
func look(t *testing.T, b *uitest.Browser, name string) {
	t.Helper()
	var owned bool
	b.Evaluate(`document.title.includes('owned') && !document.title.includes('<script>') || document.querySelector('img[src=x]') !== null`, &owned)
	if owned {
		t.Errorf("%s: a text of a timer has become markup or script", name)
	}
	b.WantQuiet(name)
}

// wantNarrow checks that no page is wider than the window.
func wantNarrow(t *testing.T, b *uitest.Browser, name string) {
	t.Helper()
	var wide []string
	b.Evaluate(`(() => {
		const width = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth <= width) return [];
		return Array.from(document.querySelectorAll('body *')).filter(e => e.getBoundingClientRect().right > width + 1).slice(0, 5)
			.map(e => e.nodeName + '.' + e.className + ' ' + Math.round(e.getBoundingClientRect().right));
	})()`, &wide)
	if len(wide) > 0 {
		t.Errorf("%s is wider than the window: %q", name, wide)
	}
}

func shoot(b *uitest.Browser, name, look string) {
	if *shots != "" {
		b.Shot(filepath.Join(*shots, name+"-"+look+".png"), true)
	}
}

// TestEveryPageInABrowser: in wide and narrow windows, light and dark, no page says anything on the
// console, no policy is violated, hostile texts run nothing, and no page scrolls sideways.
func TestEveryPageInABrowser(t *testing.T) {
	b := uitest.StartBrowser(t)
	for _, w := range []struct {
		name   string
		window uitest.Window
	}{
		{"light", uitest.Window{Width: 1280, Height: 900}},
		{"dark", uitest.Window{Width: 1280, Height: 900, Dark: true}},
		{"narrow", uitest.Window{Width: 400, Height: 800}},
		{"away", uitest.Window{Width: 400, Height: 800, Dark: true}},
	} {
		backend := uitest.New().Sample()
		rig, origin := serve(t, backend)
		if w.name == "away" {
			backend.SetAway("b")
		}
		b.Open(w.window)
		b.Goto(origin + "/ui/login")
		wantNarrow(t, b, "login "+w.name)
		shoot(b, "login", w.name)
		b.LogIn(origin, rig.Tokens["admin"])
		for _, page := range everyPage() {
			name := page[0] + " " + w.name
			if status := b.Goto(origin + "/ui/" + page[1]); status != 200 {
				t.Errorf("%s: status %d", name, status)
			}
			look(t, b, name)
			wantNarrow(t, b, name)
			shoot(b, page[0], w.name)
		}
	}
}

// TestPicturesOfTheDocuments makes the pictures of docs/dashboard.md, and checks that the present pictures
// are small enough for a repository.
func TestPicturesOfTheDocuments(t *testing.T) {
	const folder, largest = "../../../docs/img", 300 << 10
	if *pictures {
		takePictures(t, folder)
	}
	for _, name := range illustrated() {
		info, err := os.Stat(filepath.Join(folder, "dashboard-"+name[0]+".png"))
		if err != nil {
			t.Error(err)
		} else if info.Size() > largest {
			t.Errorf("%s has %d bytes", info.Name(), info.Size())
		}
	}
}

// illustrated are the names of the pictures, and the paths of the pages.
func illustrated() [][2]string {
	return [][2]string{{"overview", ""}, {"dark", ""}, {"timers", "timers?limit=8"}, {"timer", "timers/order-48213-reminder"}, {"dead", "dead"}, {"cluster", "cluster"}}
}

func takePictures(t *testing.T, folder string) {
	t.Helper()
	b := uitest.StartBrowser(t)
	backend := uitest.New().Harmless()
	rig, origin := serve(t, backend)
	_, err := backend.Drain(t.Context(), "b", false)
	if _, add := backend.Add(t.Context(), "d", "redis://rd:6379/0", false); err != nil || add != nil {
		t.Fatal(err, add)
	}
	for _, name := range illustrated() {
		b.Open(uitest.Window{Width: 1280, Height: 820, Dark: name[0] == "dark"})
		b.LogIn(origin, rig.Tokens["admin"])
		b.Goto(origin + "/ui/" + name[1])
		b.Shot(filepath.Join(folder, "dashboard-"+name[0]+".png"), false)
	}
}

// TestLivePartsKeepWhatTheOperatorDoes: a part that is made anew keeps focus, selection and open details;
// figures follow the cluster; a part without an answer says so, and is fresh again afterwards.
func TestLivePartsKeepWhatTheOperatorDoes(t *testing.T) {
	b := uitest.StartBrowser(t)
	backend := uitest.New().Sample()
	rig, origin := serve(t, backend)
	b.Open(uitest.Window{Width: 1280, Height: 800})
	b.LogIn(origin, rig.Tokens["admin"])

	b.Wait(".plot canvas")
	b.Click("figure.chart details summary")
	b.Evaluate(`document.querySelector('#live a[href="/ui/cluster"]').focus()`, nil)
	b.Evaluate(`window.marked = document.querySelector('#live dl'); void getSelection().selectAllChildren(document.querySelector('#live .figures dt'))`, nil)
	backend.SetAway("b")
	b.Wait(".alarm:not(.none)")
	var kept bool
	b.Evaluate(`document.activeElement.getAttribute('href') === '/ui/cluster' && document.activeElement.isConnected && getSelection().toString() === 'Timers' && window.marked.isConnected`, &kept)
	if !kept {
		t.Error("the focus, the selection or the elements are lost")
	}
	if text := b.Text("#live"); !strings.Contains(text, "No answer from b.") || !strings.Contains(text, "shard-down · b") {
		t.Errorf("the part says\n%s", text)
	}
	b.Evaluate(`void htmx.ajax('GET', '/ui/?part=load', {source: '#load', swap: 'none'})`, nil)
	b.Wait("#load .note.warn")
	b.Evaluate(`document.querySelector('figure.chart details').open && document.querySelectorAll('.plot canvas').length === 3`, &kept)
	if !kept {
		t.Error("the details are closed, or the charts are gone")
	}
	b.WantQuiet("overview")

	backend.SetFail(fmt.Errorf("read: %w", timer.ErrUnavailable))
	b.Wait(".no-answer")
	if text := b.Text(".no-answer"); !strings.HasPrefix(text, "No answer since ") || !strings.HasSuffix(text, "UTC. The figures below are from then.") {
		t.Errorf("a part without an answer says %q", text)
	}
	backend.SetFail(nil)
	backend.SetAway()
	b.Wait(".alarm.none")
	var notes int
	b.Do("count", uitest.Args{"selector": ".no-answer"}, &notes)
	if notes != 0 {
		t.Error("the part still says that there is no answer")
	}
	problems := b.Problems()
	problems = slices.DeleteFunc(problems, func(p string) bool { return strings.Contains(p, "503") }) // the failed answers
	if len(problems) > 0 {
		t.Errorf("the console says %q", problems)
	}
}

// TestSessionEndsUnderAnOpenPage: a page whose session is over leads to the login.
func TestSessionEndsUnderAnOpenPage(t *testing.T) {
	b := uitest.StartBrowser(t)
	rig, origin := serve(t, uitest.New().Sample())
	b.Open(uitest.Window{Width: 1280, Height: 800})
	b.LogIn(origin, rig.Tokens["read"])
	b.Goto(origin + "/ui/cluster")
	b.Evaluate(`void fetch('/ui/logout', {method: 'POST', headers: {'Content-Type': 'application/x-www-form-urlencoded'}})`, nil)
	b.Arrive("/ui/login")
	b.Fill("#token", rig.Tokens["read"])
	b.Click("button[type=submit]")
	b.Arrive("/ui/cluster$")
}

// TestKeyboardAlone logs in, finds a timer and fires the timer with the keyboard alone.
func TestKeyboardAlone(t *testing.T) {
	b := uitest.StartBrowser(t)
	backend := uitest.New().Sample()
	rig, origin := serve(t, backend)
	b.Open(uitest.Window{Width: 1280, Height: 800})
	b.Goto(origin + "/ui/timers?key-prefix=order-")
	// The field of the token has the focus.
	b.Type(rig.Tokens["both"])
	b.Press("Enter")
	b.Arrive("/ui/timers")
	b.Press("Tab")
	if focus := focused(b); focus != "Skip to the content" {
		t.Errorf("the first stop is %q", focus)
	}
	b.Press("Enter")
	tabTo(t, b, "order-48213-reminder")
	b.Press("Enter")
	b.Arrive("/ui/timers/order-48213-reminder")
	tabTo(t, b, "Fire now …")
	wantVisibleFocus(t, b)
	b.Press("Enter")
	b.Arrive("/fire$")
	tabTo(t, b, "Fire now")
	b.Press("Enter")
	b.Arrive("/ui/done/")
	if text := b.Text("main"); !strings.Contains(text, "The timer fires") {
		t.Errorf("the page says %s", text)
	}
	if changes := backend.Changes(); !slices.Equal(changes, []string{"fire order-48213-reminder"}) {
		t.Errorf("changes: %q", changes)
	}
	b.WantQuiet("keyboard")
}

func focused(b *uitest.Browser) (text string) {
	b.Evaluate(`document.activeElement.innerText || document.activeElement.value || ''`, &text)
	return strings.TrimSpace(text)
}

// tabTo presses Tab until the element with the text has the focus.
func tabTo(t *testing.T, b *uitest.Browser, text string) {
	t.Helper()
	var stops []string
	for range 60 {
		b.Press("Tab")
		stop := focused(b)
		if stop == text {
			return
		}
		stops = append(stops, stop)
	}
	t.Fatalf("Tab leads to %q, and not to %q", stops, text)
}

func wantVisibleFocus(t *testing.T, b *uitest.Browser) {
	t.Helper()
	var width string
	b.Evaluate(`getComputedStyle(document.activeElement).outlineStyle + ' ' + getComputedStyle(document.activeElement).outlineWidth`, &width)
	if width != "solid 2px" {
		t.Errorf("the outline of the focus is %q", width)
	}
}

// TestWithoutScript logs in, lists and fires without script, and sees the figures of the charts.
func TestWithoutScript(t *testing.T) {
	b := uitest.StartBrowser(t)
	backend := uitest.New().Sample()
	rig, origin := serve(t, backend)
	b.Open(uitest.Window{Width: 1280, Height: 800, NoScript: true})
	b.LogIn(origin, rig.Tokens["admin"])
	b.Click("figure.chart details summary")
	if text := b.Text("figure.chart table"); !strings.Contains(text, "Timers, about") || strings.Count(text, "\n") < 60 {
		t.Errorf("the table of a chart is %s", text)
	}
	b.Click("nav >> text=Timers")
	b.Fill("#f-key-prefix", "user-00")
	b.Click("text=Find")
	b.Arrive("key-prefix=user-00")
	b.Click("text=user-0003-trial-end")
	b.Click("text=Fire now …")
	b.Click("button >> text=Fire now")
	b.Arrive("/ui/done/")

	b.Goto(origin + "/ui/timers?key-prefix=user-02")
	b.Click("form[action='/ui/timers/matching'] button[value=delete]")
	b.Fill("#count", "40")
	b.Click("button.danger")
	b.Arrive("/ui/many/")
	if text := b.Text("main"); !strings.Contains(text, "40 of 40 timers deleted.") || !strings.Contains(text, "The change is over.") {
		t.Errorf("the page says %s", text)
	}
	if changes := backend.Changes(); !slices.Equal(changes, []string{"fire user-0003-trial-end", "bulk delete 40"}) {
		t.Errorf("changes: %q", changes)
	}
}

// TestDrainByMouse drains and removes a shard, as the page says step by step.
func TestDrainByMouse(t *testing.T) {
	b := uitest.StartBrowser(t)
	backend := uitest.New().Sample()
	rig, origin := serve(t, backend)
	b.Open(uitest.Window{Width: 1280, Height: 800})
	b.LogIn(origin, rig.Tokens["admin"])
	b.Click("nav >> text=Cluster")
	b.Click("tr[data-key=b] >> text=Drain …")
	b.Click("button >> text=Drain b")
	b.Arrive("/ui/done/")
	b.Click("a.button >> text=Cluster")
	b.Wait("text=b is being drained")
	backend.Drained("b")
	b.Wait("text=b is empty: remove it.") // by the live part
	b.Click("tr[data-key=b] >> text=Remove …")
	b.Click("button >> text=Remove b")
	b.Arrive("/ui/done/")
	if changes := backend.Changes(); !slices.Equal(changes, []string{"drain b", "remove b"}) {
		t.Errorf("changes: %q", changes)
	}
	b.WantQuiet("drain")
}

// TestSelectAll: the box at the head selects all rows.
func TestSelectAll(t *testing.T) {
	b := uitest.StartBrowser(t)
	backend := uitest.New().Sample()
	rig, origin := serve(t, backend)
	b.Open(uitest.Window{Width: 1280, Height: 800})
	b.LogIn(origin, rig.Tokens["admin"])
	b.Goto(origin + "/ui/timers?key-prefix=user-000")
	b.Click(".pick-all")
	b.Click("form[action='/ui/timers/selected'] button[value=delete]")
	if text := b.Text("main"); !strings.Contains(text, "10 timers match.") {
		t.Errorf("the page says %s", text)
	}
	shoot(b, "many", "count")
	b.Fill("#count", "10")
	b.Click("button.danger")
	shoot(b, "many", "over")
	if text := b.Text("main"); !strings.Contains(text, "10 of 10 timers deleted.") {
		t.Errorf("the page says %s", text)
	}
	if n := len(backend.Changes()); n != 10 {
		t.Errorf("%d changes", n)
	}
}

// TestManyGoOnByThemselves: with script, the steps of a change to many follow each other.
func TestManyGoOnByThemselves(t *testing.T) {
	b := uitest.StartBrowser(t)
	backend := uitest.New()
	for i := range 3200 {
		backend.Put(uitest.Timer{Key: fmt.Sprintf("crowd-%04d", i), Due: time.Now().Add(time.Hour)})
	}
	rig, origin := serve(t, backend)
	b.Open(uitest.Window{Width: 1280, Height: 800})
	b.LogIn(origin, rig.Tokens["admin"])
	b.Goto(origin + "/ui/timers?key-prefix=crowd-")
	b.Click("form[action='/ui/timers/matching'] button[value=delete]")
	b.Fill("#count", "3200")
	b.Click("button.danger")
	b.Wait("text=The change is over.")
	if text := b.Text("main"); !strings.Contains(text, "3,200 of 3,200 timers deleted.") {
		t.Errorf("the page says %s", text)
	}
	if want := []string{"bulk delete 1000", "bulk delete 1000", "bulk delete 1000", "bulk delete 200"}; !slices.Equal(backend.Changes(), want) {
		t.Errorf("changes: %q", backend.Changes())
	}
	b.WantQuiet("many")
}

// TestMain makes the folder for the screenshots.
func TestMain(m *testing.M) {
	flag.Parse()
	if *shots != "" {
		if err := os.MkdirAll(*shots, 0o755); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
