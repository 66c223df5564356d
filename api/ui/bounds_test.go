package ui_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/api/ui"
	"chronos/api/ui/uitest"
	"chronos/scheduler/cluster"
	"chronos/scheduler/listing"
	"chronos/scheduler/timer"
)

// slowCluster answers once the channel is closed, or the page has no more time.
type slowCluster struct {
	*uitest.Backend
	open chan struct{}
}

func (s *slowCluster) Status(ctx context.Context) (cluster.Status, error) {
	select {
	case <-s.open:
		return s.Backend.Status(ctx)
	case <-ctx.Done():
		return cluster.Status{}, ctx.Err()
	}
}

func slowRig(t *testing.T) (*uitest.Rig, *slowCluster) {
	b := uitest.New()
	slow := &slowCluster{b, make(chan struct{})}
	rig := uitest.NewRig(t, b, nil)
	rig.UI = ui.New(ui.Config{Cluster: slow, History: b, Lister: b, Timers: b, Letters: b.Dead, Destinations: b, Topology: b, Authorizer: rig.Set})
	return rig, slow
}

// TestPagesEndAfterASecond: a page does not wait for a cluster that gives no answer.
func TestPagesEndAfterASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig, _ := slowRig(t)
		v := visit(t, rig, "read")
		begun := time.Now()
		v.want(v.get("/ui/cluster"), http.StatusServiceUnavailable, "store-unavailable")
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the page took %v", took)
		}
	})
}

// TestFourPagesAtOnce: further requests wait half a second for their turn, 16 of them at most.
func TestFourPagesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig, slow := slowRig(t)
		v := visit(t, rig, "read")
		answers := make(chan *httptest.ResponseRecorder, 30)
		for range 30 {
			go func() { answers <- v.get("/ui/cluster") }()
		}
		synctest.Wait()
		if n := len(answers); n != 10 {
			t.Errorf("%d requests are refused at once, want 10", n)
		}
		time.Sleep(400 * time.Millisecond)
		close(slow.open)
		refused := 0
		for range 30 {
			w := <-answers
			if w.Code == http.StatusOK {
				continue
			}
			refused++
			v.want(w, http.StatusServiceUnavailable, "as many pages as it may at once", "overloaded")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
			}
		}
		if refused != 10 {
			t.Errorf("%d requests are refused, want 10", refused)
		}
	})
}

func TestNobodyWaitsLongForATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig, _ := slowRig(t)
		v := visit(t, rig, "read")
		done := make(chan struct{}, 4)
		for range 4 {
			go func() { v.get("/ui/cluster"); done <- struct{}{} }()
		}
		synctest.Wait()
		begun := time.Now()
		v.want(v.get("/ui/cluster"), http.StatusServiceUnavailable, "overloaded")
		if took := time.Since(begun); took != 500*time.Millisecond {
			t.Errorf("the request waited %v", took)
		}
		for range 4 {
			<-done
		}
	})
}

// TestLargestPages: pages of the longest texts keep their bounds of rows and bytes.
func TestLargestPages(t *testing.T) {
	t.Parallel()
	b := uitest.New()
	long := strings.Repeat("\u202e", 4000)
	tags := make([]timer.Tag, 32)
	for i := range tags {
		tags[i] = timer.Tag{Type: strings.Repeat("\x00", 256), Count: 1}
	}
	opaques := []string{strings.Repeat("\x00", 1<<20), strings.Repeat("'", 16_000), strings.Repeat(`"`, 1<<20)}
	for i := range 150 {
		one := uitest.Timer{Key: fmt.Sprintf("%0128d", i), Due: time.Now().Add(time.Hour), Timer: timer.Timer{Interval: time.Hour, Tags: tags, Callback: timer.Callback{URI: "http://" + long, Opaque: opaques[i%len(opaques)]}}}
		one.Failure.Reason, one.Failure.At = long, time.Now()
		b.Put(one)
		b.Dead.Bury(time.Now(), fmt.Sprint(i)+strings.Repeat("\"", 480), one)
	}
	v := visit(t, uitest.NewRig(t, b, nil), "admin")
	for _, path := range []string{"/ui/timers", "/ui/dead", "/ui/timers/" + fmt.Sprintf("%0128d", 6) + "?opaque=shown", "/ui/timers/" + fmt.Sprintf("%0128d", 7) + "?opaque=shown", "/ui/timers/" + fmt.Sprintf("%0128d", 8) + "?opaque=shown", "/ui/dead/a.0007?opaque=shown"} {
		w := v.get(path)
		page := w.Body.String()
		if rows := strings.Count(page, "<tr"); w.Code != http.StatusOK || rows > 100+8 || len(page) > 256<<10 {
			t.Errorf("%s: status %d, %d rows, %d bytes", path, w.Code, rows, len(page))
		}
	}
}

// endless has a page of more rows than were asked for.
type endless struct{ *uitest.Backend }

func (e endless) List(ctx context.Context, q listing.Query) (listing.Page, error) {
	q.Limit = 5000
	return e.Backend.List(ctx, q)
}

func TestNoMoreRowsThanAPageHas(t *testing.T) {
	t.Parallel()
	b := crowd(1000)
	rig := uitest.NewRig(t, b, nil)
	rig.UI = ui.New(ui.Config{Cluster: b, History: b, Lister: endless{b}, Timers: b, Letters: b.Dead, Destinations: b, Topology: b, Authorizer: rig.Set})
	v := visit(t, rig, "admin")
	if page := v.want(v.get("/ui/timers"), http.StatusOK); strings.Count(page, `name="timer"`) != 100 {
		t.Errorf("%d rows", strings.Count(page, `name="timer"`))
	}
}

// TestVendoredFiles: the libraries are as their publishers have published them: htmx.org 2.0.11 and uplot
// 1.6.32 of npm.
func TestVendoredFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"htmx.js":       "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
		"htmx.LICENSE":  "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
		"uplot.js":      "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		content, err := os.ReadFile("static/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not as published: %x", name, sum)
		}
	}
}
