// Package strangertest follows README, docs/tutorial.md and docs/sites.md as a stranger does: in a clean clone, with the commands, ports
// and programs of the pages.
package strangertest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/cmd/internal/pages"
	"chronos/scheduler/verify/testkit"
)

// Bounds of what the pages promise.
const (
	compiles    = 3 * time.Minute
	alertFires  = 90 * time.Second
	healsWithin = time.Minute
)

// TestStranger starts a node by README, gets a callback, and opens the dashboard. Then the test starts the cluster of
// docs/tutorial.md, stops a Redis, gets an alert, does as the runbook says, and takes the Redis out.
func TestStranger(t *testing.T) {
	s := newStranger(t, "7253", "7254", "7263", "7264", "9000", "9090", "6401", "6402", "6403")
	s.readme()
	s.tutorial()
}

func (s *stranger) readme() {
	blocks := s.blocks("README.md")
	node, receiver := s.open(blocks[0], blocks[0].Note, compiles), s.open(blocks[1], blocks[1].Note, compiles)
	s.ends(blocks[2], 0, `"copies":1`)
	s.eventually(testkit.Soon, "the receiver prints the line that README shows", func() bool {
		return slices.ContainsFunc(strings.Split(receiver.log.String(), "\n"), func(line string) bool {
			_, err := pages.Compare(blocks[3].Output, line)
			return err == nil
		})
	})
	s.wantDashboard(node)
	node.interrupt()
	receiver.interrupt()
}

func (s *stranger) tutorial() {
	const page = "docs/tutorial.md"
	blocks := s.blocks(page)
	if len(blocks) != 13 {
		s.t.Fatalf("%s has %d blocks: change the test with the page", page, len(blocks))
	}
	next := func() pages.Block {
		b := blocks[0]
		blocks = blocks[1:]
		return b
	}
	s.cleanUp = blocks[len(blocks)-1]
	s.ends(next(), 0)
	node, other := s.open(next(), "node is up", testkit.Soon), s.open(next(), "node is up", testkit.Soon)
	receiver, prometheus := s.open(next(), "receiver listens", compiles), s.open(next(), "Server is ready", testkit.Soon)
	s.ends(next(), 0, "at rest", "redis://127.0.0.1:6402")
	receiver.await("all is well", testkit.Soon)
	s.wantDashboard(node)

	s.ends(next(), 0) // b stops
	s.ends(next(), 0)
	receiver.await("without b", testkit.Soon)
	s.ends(next(), 1, "6402")
	s.eventually(alertFires, "Prometheus fires ChronosShardDown", func() bool { return s.firing("ChronosShardDown") })
	s.runbook()
	s.ends(next(), 0) // b is back
	s.eventually(alertFires, "the alert ends", func() bool { return !s.firing("ChronosShardDown") })
	s.eventually(healsWithin, "the cluster is content", func() bool {
		printed, status := s.shell.run("chronos status && chronos topology show")
		return status == 0 && strings.Contains(printed, "at rest")
	})

	s.ends(next(), 0, "at rest")            // b is drained
	s.shell.run("sleep 5")                  // "some seconds later"
	s.ends(next(), 0, "at rest", "order-1") // b is removed
	printed, _ := s.shell.run("chronos timer list --prefix order- --all --json | wc -l; chronos topology show")
	if !strings.HasPrefix(printed, "100\n") || strings.Contains(printed, "6402") {
		s.t.Errorf("of 100 timers on two Redis instances there are:\n%s", printed)
	}
	for _, open := range []*terminal{node, other, receiver, prometheus} {
		open.interrupt()
	}
	s.ends(next(), 0)
}

// runbook takes the first look that the runbook advises, at the addresses of this cluster.
func (s *stranger) runbook() {
	const page, section = "docs/runbook.md", "\n## ChronosShardDown\n"
	text := s.read(page)
	from := strings.Count(text[:strings.Index(text, section)+1], "\n")
	blocks := s.blocks(page)
	look := blocks[slices.IndexFunc(blocks, func(b pages.Block) bool { return b.Line > from })]
	look.Script = strings.ReplaceAll(look.Script, "10.0.0.2:6379", "127.0.0.1:6402")
	s.ends(look, 1, "connection refused", "Connection refused")
}

// wantDashboard opens the link in the log of a node.
func (s *stranger) wantDashboard(node *terminal) {
	s.t.Helper()
	link := regexp.MustCompile(`dashboard="?(http\S+?)"?\s`).FindStringSubmatch(node.log.String() + "\n")
	if link == nil {
		s.t.Fatalf("the log has no link to the dashboard:\n%s", node.log)
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, Timeout: testkit.Soon}
	s.get(browser, link[1])
	root, _, _ := strings.Cut(link[1], "login")
	if page, status := s.get(browser, root); status != http.StatusOK || !strings.Contains(page, "<title>Overview") {
		s.t.Errorf("dashboard: status %d\n%s", status, page)
	}
}

func (s *stranger) firing(alert string) bool {
	answer, status := s.get(&http.Client{Timeout: testkit.Soon}, "http://127.0.0.1:9090/api/v1/alerts")
	return status == http.StatusOK && regexp.MustCompile(`\{"labels":\{"alertname":"`+alert+`"[^{]*\{[^}]*\},"state":"firing"`).MatchString(answer)
}

func (s *stranger) get(client *http.Client, url string) (body string, status int) {
	s.t.Helper()
	answer, err := client.Get(url) //nolint:noctx // bounded by the client
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // was read
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text), answer.StatusCode
}

func (s *stranger) read(page string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, page))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *stranger) blocks(page string) []pages.Block {
	s.t.Helper()
	blocks, err := pages.Read(s.read(page))
	if err != nil {
		s.t.Fatal(err)
	}
	return blocks
}

func (s *stranger) eventually(within time.Duration, what string, holds func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, within, what, holds)
}

// ends runs a block in the first terminal. The block ends with the status, and prints the texts.
func (s *stranger) ends(b pages.Block, want int, texts ...string) {
	s.t.Helper()
	printed, status := s.shell.run(b.Script)
	if status != want {
		s.t.Fatalf("exit status %d, want %d, of\n%s\n\n%s", status, want, b.Script, printed)
	}
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			s.t.Errorf("%q is not in what was printed by\n%s\n\n%s", text, b.Script, printed)
		}
	}
}
