package strangertest

import (
	"strings"
	"testing"
	"time"

	"chronos/cmd/internal/pages"
	"chronos/scheduler/verify/testkit"
)

// filledWithin bounds how long a site that came back empty is not ready.
const filledWithin = time.Minute

// TestStrangerSetsUpSites starts two sites by docs/sites.md. One site is lost, comes back, and comes back empty.
func TestStrangerSetsUpSites(t *testing.T) {
	const page = "docs/sites.md"
	s := newStranger(t, "7253", "7254", "7263", "7264", "7273", "7274", "7283", "7284", "9000", "6411", "6412", "6413", "6421", "6422", "6423")
	var blocks []pages.Block
	for _, b := range s.blocks(page) {
		if b.How == pages.RunBy {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) != 15 {
		t.Fatalf("%s has %d blocks for this test: change the test with the page", page, len(blocks))
	}
	next := func() pages.Block {
		b := blocks[0]
		blocks = blocks[1:]
		return b
	}
	s.cleanUp = blocks[len(blocks)-1]
	start := func(b pages.Block) *terminal { return s.open(b, "node is up", testkit.Soon) }
	s.ends(next(), 0)
	london := []*terminal{start(next()), start(next())}
	one, two := next(), next()
	newYork := []*terminal{start(one), start(two)}
	receiver := s.open(next(), "receiver listens", compiles)
	s.awaitReady("7254", "7264", "7274", "7284")
	s.shows(next(), `"key":"tea"`)

	s.ends(next(), 0) // a timer in New York
	for _, node := range newYork {
		node.interrupt()
	}
	s.ends(next(), 0) // New York is lost
	receiver.await("London calls", time.Minute)
	s.shows(next())

	s.ends(next(), 0) // New York is back
	newYork = []*terminal{start(one), start(two)}
	s.awaitReady("7274", "7284")
	told := next()
	s.eventually(healsWithin, "New York knows of the change", func() bool {
		printed, _ := s.shell.run(told.Script)
		return strings.Contains(printed, `chronos_site_oldest_mark_seconds{site="nyc"} 0`+"\n") && strings.Contains(printed, `"interval":7200`)
	})

	for _, node := range newYork {
		node.interrupt()
	}
	s.ends(next(), 0) // New York is empty
	newYork = []*terminal{start(one), start(two)}
	s.awaitReady("7274", "7284")
	s.eventually(filledWithin, "a node in London says that New York is filled", func() bool {
		return strings.Contains(london[0].log.String()+london[1].log.String(), `msg="the site is filled" site=nyc`)
	})
	s.ends(next(), 0, `"interval":7200`)
	for _, open := range append(append(london, newYork...), receiver) {
		open.interrupt()
	}
	s.ends(next(), 0)
	if n := strings.Count(receiver.log.String(), "London calls"); n != 1 {
		t.Errorf("the timer of New York was called %d times", n)
	}
}

// awaitReady waits until the nodes with these admin ports are ready.
func (s *stranger) awaitReady(ports ...string) {
	s.t.Helper()
	for _, port := range ports {
		s.eventually(filledWithin, "the node at "+port+" is ready", func() bool {
			_, status := s.shell.run("curl -sf localhost:" + port + "/readyz")
			return status == 0
		})
	}
}

// shows runs a block, which prints what the page shows, and the texts.
func (s *stranger) shows(b pages.Block, texts ...string) {
	s.t.Helper()
	printed, status := s.shell.run(b.Script)
	if status != 0 {
		s.t.Fatalf("exit status %d of\n%s\n\n%s", status, b.Script, printed)
	}
	if _, err := pages.Compare(b.Output, printed); err != nil {
		s.t.Errorf("%v\n%s\n\n%s", err, b.Script, printed)
	}
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			s.t.Errorf("%q is not in what was printed by\n%s\n\n%s", text, b.Script, printed)
		}
	}
}
