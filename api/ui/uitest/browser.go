package uitest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// stepTime is how long a step in the browser may take.
const stepTime = 20 * time.Second

// Browser is a real browser with one window. The methods end the test if a step fails. A Browser is not
// safe for concurrent use.
type Browser struct {
	t       testing.TB
	in      io.WriteCloser
	answers chan reply
}

type reply struct {
	Result json.RawMessage
	Error  string
}

// Chromium is the browser that tests drive.
const Chromium = "/usr/bin/chromium"

// StartBrowser starts a browser that ends with the test. Where the browser, node or playwright-core is
// missing, the test is skipped, or fails in CI.
func StartBrowser(t testing.TB) *Browser {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(here), "browser")
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "node", "apt-get install nodejs npm")
	}
	if _, err := os.Stat(Chromium); err != nil {
		missing(t, Chromium, "apt-get install chromium")
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "playwright-core")); errors.Is(err, fs.ErrNotExist) {
		missing(t, "playwright-core", "make test-needs, or npm ci in "+folder)
	}
	cmd := exec.CommandContext(t.Context(), node, "driver.mjs", Chromium)
	cmd.Dir, cmd.Stderr = folder, t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = stepTime
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, in: in, answers: make(chan reply)}
	read := make(chan struct{})
	go func() { defer close(read); defer close(b.answers); b.read(out) }()
	t.Cleanup(func() {
		_ = in.Close() // the driver ends with its input
		for range b.answers {
			t.Log("an answer of the browser came late")
		}
		<-read
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("end the browser: %v", err)
		}
	})
	return b
}

// missing skips a test that lacks a program, and fails the test in CI.
func missing(t testing.TB, what, remedy string) {
	t.Helper()
	testkit.Missing(t, "THE DASHBOARD IS NOT TESTED IN A BROWSER: "+what+" is missing ("+remedy+")")
}

func (b *Browser) read(out io.Reader) {
	const longest = 8 << 20
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r.Error = "the driver has said: " + lines.Text()
		}
		b.answers <- r
	}
}

// Args are the arguments of a step.
type Args map[string]any

// Do takes a step of browser/driver.mjs, and reads the result into result unless result is nil.
func (b *Browser) Do(step string, args Args, result any) {
	b.t.Helper()
	command := Args{"do": step}
	maps.Copy(command, args)
	line, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		b.t.Fatalf("the browser's driver has ended: %v", err)
	}
	select {
	case r, running := <-b.answers:
		switch {
		case !running:
			b.t.Fatalf("%s: the browser's driver has ended", step)
		case r.Error != "":
			b.t.Fatalf("%s %v: %s", step, args, r.Error)
		case result != nil:
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatalf("%s: %v", step, err)
			}
		}
	case <-time.After(stepTime):
		b.t.Fatalf("%s %v: no answer of the browser in %v", step, args, stepTime)
	}
}

// Window is how a window is.
type Window struct {
	Width, Height int
	Dark          bool
	NoScript      bool
}

// Open closes the window, and opens a window without cookies.
func (b *Browser) Open(w Window) {
	b.t.Helper()
	b.Do("open", Args{"width": w.Width, "height": w.Height, "dark": w.Dark, "script": !w.NoScript}, nil)
}

// Goto goes to an address, and returns the status of the answer.
func (b *Browser) Goto(address string) (status int) {
	b.t.Helper()
	b.Do("goto", Args{"url": address}, &status)
	return status
}

// Fill writes into a field.
func (b *Browser) Fill(selector, text string) {
	b.t.Helper()
	b.Do("fill", Args{"selector": selector, "text": text}, nil)
}

// Click clicks on the only element of the selector.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.Do("click", Args{"selector": selector}, nil)
}

// Follow clicks on the only link of the selector, and waits until the browser has loaded the page behind the link.
func (b *Browser) Follow(selector string) {
	b.t.Helper()
	b.Do("follow", Args{"selector": selector}, nil)
}

// Press presses a key, such as Tab.
func (b *Browser) Press(key string) {
	b.t.Helper()
	b.Do("press", Args{"key": key}, nil)
}

// Type types text into the element with the focus.
func (b *Browser) Type(text string) {
	b.t.Helper()
	b.Do("type", Args{"text": text}, nil)
}

// Text is the text that the first element of the selector shows.
func (b *Browser) Text(selector string) (text string) {
	b.t.Helper()
	b.Do("text", Args{"selector": selector}, &text)
	return text
}

// Wait waits until an element of the selector shows.
func (b *Browser) Wait(selector string) {
	b.t.Helper()
	b.Do("wait", Args{"selector": selector}, nil)
}

// Arrive waits until the address matches the pattern.
func (b *Browser) Arrive(pattern string) {
	b.t.Helper()
	b.Do("arrive", Args{"pattern": pattern}, nil)
}

// Evaluate is the result of a script in the page.
func (b *Browser) Evaluate(script string, result any) {
	b.t.Helper()
	b.Do("evaluate", Args{"script": script}, result)
}

// Shot takes a screenshot of the page, or of the whole page if full.
func (b *Browser) Shot(path string, full bool) {
	b.t.Helper()
	path, err := filepath.Abs(path) // the driver works in another folder
	if err != nil {
		b.t.Fatal(err)
	}
	b.Do("shot", Args{"path": path, "full": full}, nil)
}

// Problems are the messages of the console, the errors and the dialogs since the last call.
func (b *Browser) Problems() (all []string) {
	b.t.Helper()
	b.Do("problems", nil, &all)
	return all
}

// LogIn logs in with a token by the form, and waits for the overview.
func (b *Browser) LogIn(origin, token string) {
	b.t.Helper()
	b.Goto(origin + "/ui/login")
	b.Fill("#token", token)
	b.Click("button[type=submit]")
	b.Arrive("/ui/$")
}

// WantQuiet fails the test if the page has said anything on the console.
func (b *Browser) WantQuiet(where string) {
	b.t.Helper()
	for _, problem := range slices.Compact(b.Problems()) {
		b.t.Errorf("%s: %s", where, strings.TrimSpace(problem))
	}
}
