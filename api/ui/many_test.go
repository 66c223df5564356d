package ui_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/api/ui/uitest"
	"chronos/scheduler/timer"
)

func crowd(n int) *uitest.Backend {
	b := uitest.New()
	for i := range n {
		b.Put(uitest.Timer{Key: fmt.Sprintf("crowd-%05d", i), Due: time.Now().Add(time.Hour + time.Duration(i)*time.Second), Leased: i == 7, Timer: timer.Timer{Interval: time.Hour, Callback: timer.Callback{URI: "http://a.example/"}}})
	}
	return b
}

// stepOf is the path that the page's form for the next step goes to.
func stepOf(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`action="(/ui/many/[^"]+/do)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no form for a step:\n%s", page)
	}
	return found[1]
}

// TestDeleteAllThatMatch: the timers are counted, the count is typed, and the change goes on in steps of
// 1,000. What is refused is told.
func TestDeleteAllThatMatch(t *testing.T) {
	t.Parallel()
	b := crowd(2500)
	b.Put(uitest.Timer{Key: "bystander", Due: time.Now().Add(time.Hour)})
	v, log := rigged(t, b)
	w := v.post("/ui/timers/matching", url.Values{"action": {"delete"}, "key-prefix": {"crowd-"}})
	page := v.want(v.follow(w), http.StatusOK, "2,500 timers match.", "<b>2500</b>", "Deleted timers do not come back.", "crowd-")
	wantChanges(t, b)
	step := stepOf(t, page)
	v.want(v.post(step, url.Values{"count": {"2499"}}), http.StatusBadRequest, "is not the number of timers counted")
	wantChanges(t, b)

	page = v.want(v.follow(v.post(step, url.Values{"count": {"2,500"}})), http.StatusOK, "999 of 2,500 timers deleted, 1 refused.", "Go on", "crowd-00007", `value="40"`)
	again := formOf(t, page, step)
	page = v.want(v.follow(v.post(step, again)), http.StatusOK, "1,999 of 2,500 timers deleted, 1 refused.")
	v.want(v.follow(v.post(step, again)), http.StatusOK, "1,999 of 2,500 timers deleted, 1 refused.") // the form twice
	page = v.want(v.follow(v.post(step, formOf(t, page, step))), http.StatusOK, "The change is over.")
	if strings.Contains(page, "Go on") {
		t.Errorf("the change goes on:\n%s", page)
	}
	v.want(v.get("/ui/timers/bystander"), http.StatusOK)
	if n := strings.Count(log.String(), "change=\"delete timers\" which=\"key-prefix=crowd-\" done="); n != 3 {
		t.Errorf("%d steps are logged, want 3:\n%s", n, log)
	}
}

// TestACountThatIsNotOver: a count goes on by request, and no more are changed than counted.
func TestACountThatIsNotOver(t *testing.T) {
	t.Parallel()
	b := crowd(1500)
	v, _ := rigged(t, b)
	page := v.want(v.follow(v.post("/ui/timers/matching", url.Values{"action": {"fire"}, "all": {"true"}})), http.StatusOK, "1,500 timers match.", "none: all timers of the cluster")
	for i := range 100 {
		b.Put(uitest.Timer{Key: fmt.Sprintf("late-%05d", i), Due: time.Now().Add(30 * time.Hour)})
	}
	step := stepOf(t, page)
	page = v.want(v.follow(v.post(step, url.Values{"count": {"1500"}})), http.StatusOK)
	v.want(v.follow(v.post(step, formOf(t, page, step))), http.StatusOK, "The change is over.")
	wantChanges(t, b, "bulk fire 999", "bulk fire 500")
}

func TestSelectedTimers(t *testing.T) {
	t.Parallel()
	b := crowd(20)
	v, _ := rigged(t, b)
	list := v.want(v.get("/ui/timers"), http.StatusOK)
	boxes := regexp.MustCompile(`name="timer" value="([^"]+)"`).FindAllStringSubmatch(list, -1)
	if len(boxes) != 20 {
		t.Fatalf("%d boxes", len(boxes))
	}
	changed := strings.Split(boxes[2][1], "@")[0] + "@00000000000000ff"
	form := url.Values{"action": {"delay"}, "by": {"10m"}, "timer": {boxes[0][1], boxes[1][1], changed}}
	page := v.want(v.follow(v.post("/ui/timers/selected", form)), http.StatusOK, "3 timers match.", "crowd-00000, crowd-00001, crowd-00002", "come 10 min later")
	v.want(v.follow(v.post(stepOf(t, page), url.Values{"count": {"3"}})), http.StatusOK, "2 of 3 timers delayed, 1 refused.", "The timer has changed since")
	if n := len(b.Changes()); n != 2 {
		t.Errorf("%d changes: %q", n, b.Changes())
	}
}

func TestDeadLettersOfAGroup(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{"fire": "37 of 37 dead letters fired again.", "delete": "37 of 37 dead letters deleted."} {
		b := uitest.New().Sample()
		v, _ := rigged(t, b)
		group := regexp.MustCompile(`href="(/ui/dead\?destination=http%3A%2F%2Fbilling[^"]+)"`).FindStringSubmatch(v.want(v.get("/ui/dead"), http.StatusOK))
		if group == nil {
			t.Fatal("the page leads to no group")
		}
		page := v.want(v.get(html.UnescapeString(group[1])), http.StatusOK, "All letters that match the filter")
		form := with(formOf(t, page, "/ui/dead/matching"), "action", action)
		page = v.want(v.follow(v.post("/ui/dead/matching", form)), http.StatusOK, "37 dead letters match.", "billing.internal")
		v.want(v.follow(v.post(stepOf(t, page), url.Values{"count": {"37"}})), http.StatusOK, want)
		if n := len(b.Changes()); n != 37 {
			t.Errorf("%s: %d changes", action, n)
		}
	}
}

// TestAStepThatFails is told, and can be repeated.
func TestAStepThatFails(t *testing.T) {
	t.Parallel()
	b := crowd(1200)
	v, _ := rigged(t, b)
	page := v.want(v.follow(v.post("/ui/timers/matching", url.Values{"action": {"fire"}, "all": {"true"}})), http.StatusOK)
	step := stepOf(t, page)
	b.SetFail(fmt.Errorf("read: %w", timer.ErrUnavailable))
	page = v.want(v.follow(v.post(step, url.Values{"count": {"1200"}})), http.StatusOK, "The last step has failed.", "No shard has answered in time", "Go on")
	b.SetFail(nil)
	v.want(v.follow(v.post(step, formOf(t, page, step))), http.StatusOK, "999 of 1,200 timers fired, 1 refused.")
}

// TestRunsAreOfASession: nobody else goes on with a change.
func TestRunsAreOfASession(t *testing.T) {
	t.Parallel()
	b := crowd(10)
	v, _ := rigged(t, b)
	w := v.post("/ui/timers/matching", url.Values{"action": {"delete"}, "all": {"true"}})
	other := visit(t, v.rig, "admin")
	other.want(other.get(w.Header().Get("Location")), http.StatusNotFound, "only the login that began the change")
	other.want(other.post(w.Header().Get("Location")+"/do", url.Values{"count": {"10"}}), http.StatusNotFound)
	wantChanges(t, b)
	for range 20 {
		v.want(v.post("/ui/timers/matching", url.Values{"action": {"delete"}, "all": {"true"}}), http.StatusSeeOther)
	}
	v.want(v.get(w.Header().Get("Location")), http.StatusNotFound, "remembers the last 20")
}

// TestErrorsOfReads: a page says why nothing is known, and a part of a page is no page.
func TestErrorsOfReads(t *testing.T) {
	t.Parallel()
	b := uitest.New().Sample()
	v, _ := rigged(t, b)
	b.SetFail(fmt.Errorf("read: %w", timer.ErrUnavailable))
	for _, path := range []string{"/ui/", "/ui/timers", "/ui/timers/hostile", "/ui/destinations", "/ui/cluster"} {
		w := v.get(path)
		v.want(w, http.StatusServiceUnavailable, "store-unavailable", "</html>")
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	for _, path := range []string{"/ui/?part=live", "/ui/?part=load", "/ui/cluster?part=live"} {
		w := v.get(path)
		if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "<html") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	b.SetFail(errors.New("a secret of the inside"))
	page := v.want(v.get("/ui/"), http.StatusInternalServerError, "its log says what")
	if strings.Contains(page, "secret of the inside") {
		t.Error("the cause is shown")
	}
}
