package processtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"chronos/cmd/internal/pages"
	"chronos/scheduler/verify/testkit"
)

// What a node and a receiver print when they are ready. A block that starts either takes the place of the present one.
const (
	nodeIsUp      = "node is up"
	receiverIsUp  = "receiver listens"
	redisOnPages  = "10.0.0.%d:6379"
	redisOnPagesN = 5
)

// start starts the cluster that a page supposes: Redis instances a, b and c, further ones if the page names them, a
// receiver, and two nodes.
func (f *follower) start(text string) {
	var shards []string
	for i := range redisOnPagesN {
		page := fmt.Sprintf(redisOnPages, i+1)
		if i >= 3 && !strings.Contains(text, page) {
			continue
		}
		server := testkit.StartRedis(f.t)
		f.real[page] = server.Address
		// The page may start the server anew, in the background.
		f.real[fmt.Sprintf("--bind 10.0.0.%d --port 6379", i+1)] = "--bind 127.0.0.1 --port " + server.Port
		f.t.Cleanup(func() { _ = server.Admin.ShutdownNoSave(context.Background()) })
		if i < 3 {
			shards = append(shards, fmt.Sprintf("%c=%s", 'a'+i, server.URL))
		}
	}
	program, err := receiverProgram()
	if err != nil {
		f.t.Fatal(err)
	}
	f.serve(receiverIsUp, f.env, program, "-listen", f.real["127.0.0.1:9000"])
	env := append(slices.Clone(f.env), "CHRONOS_REDIS="+strings.Join(shards, ","))
	one := awaitNode(f.t, f.serve(nodeIsUp, env, binary))
	two := awaitNode(f.t, f.serve("second node", append(env, "CHRONOS_LISTEN=127.0.0.1:0", "CHRONOS_ADMIN_LISTEN=127.0.0.1:0"), binary))
	f.env = append(f.env, fmt.Sprintf("NODES=%d %d", one.PID(), two.PID()))
}

// serve starts a program in a process group of its own, in place of the program that is there.
func (f *follower) serve(place string, env []string, args ...string) *testkit.Process {
	if before := f.servers[place]; before != nil {
		f.interrupt(before)
	}
	p := testkit.Start(f.t, env, testkit.Program(f.t, "setsid"), append([]string{"bash", "-c", `cd "$0" && exec "$@"`, f.dir}, args...)...)
	f.t.Cleanup(func() { _ = syscall.Kill(-p.PID(), syscall.SIGKILL) })
	f.servers[place], f.running = p, append(f.running, p)
	return p
}

// interrupt is Ctrl-C.
func (f *follower) interrupt(p *testkit.Process) {
	_ = syscall.Kill(-p.PID(), syscall.SIGINT)
	select {
	case <-p.Done:
	case <-time.After(testkit.Soon):
		f.t.Errorf("%v had not ended %v after Ctrl-C", p.Cmd.Args, testkit.Soon)
	}
}

// block runs a block, and compares what the block prints with the page.
func (f *follower) block(b pages.Block) error {
	script := "set -aeuo pipefail\n[ ! -e .state ] || . ./.state\ntrap 'export -p >.state' EXIT\n"
	if !regexp.MustCompile(`HTTP/1\.1 [45]|"status":[45]`).MatchString(b.Output) {
		script += "export CURL_FAIL=--fail-with-body\n"
	} else {
		script += "export CURL_FAIL=\n"
	}
	if b.First != "" {
		script += "{\n" + f.substitute(b.First) + "\n} >.first\n"
	}
	script += f.substitute(b.Script)
	switch b.How {
	case pages.Meanwhile:
		return f.meanwhile(b.Output)
	case pages.RunsOn:
		return f.runsOn(b, script)
	default:
		return f.ends(b, script)
	}
}

func (f *follower) ends(b pages.Block, script string) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Dir, command.Env, command.WaitDelay = f.dir, f.env, time.Second
	printed, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, printed)
	}
	f.learnToken(string(printed))
	if b.Output == "" {
		return nil
	}
	return f.compare(b.Output, string(printed))
}

func (f *follower) runsOn(b pages.Block, script string) error {
	p := f.serve(b.Note, f.env, "bash", "-c", script)
	testkit.Eventually(f.t, time.Minute, "the block prints "+b.Note, func() bool {
		select {
		case <-p.Done:
			if !strings.Contains(p.Log.String(), b.Note) {
				f.t.Fatalf("the block at line %d has ended: %v", b.Line, p.Err)
			}
		default:
		}
		return strings.Contains(p.Log.String(), b.Note)
	})
	f.learnToken(p.Log.String())
	if found := upLine.FindStringSubmatch(p.Log.String()); len(found) > 3 && strings.HasPrefix(found[3], "http:") {
		testkit.Eventually(f.t, testkit.Soon, "the node is ready", func() bool { ready, _ := readiness(found[3]); return ready })
	}
	return nil
}

// meanwhile waits until programs that run on have printed the lines of the page.
func (f *follower) meanwhile(output string) error {
	for line := range strings.SplitSeq(output, "\n") {
		testkit.Eventually(f.t, testkit.Soon, fmt.Sprintf("a program prints a line like %q", line), func() bool {
			return slices.ContainsFunc(f.running, func(p *testkit.Process) bool {
				return slices.ContainsFunc(strings.Split(p.Log.String(), "\n"), func(printed string) bool {
					return f.compare(line, printed) == nil
				})
			})
		})
	}
	return nil
}

func (f *follower) compare(page, printed string) error {
	ids, err := pages.Compare(page, f.asOnPage(printed))
	if err != nil {
		return err
	}
	maps.Copy(f.real, ids)
	return nil
}

func (f *follower) learnToken(printed string) {
	if found := regexp.MustCompile(`chr_[\w-]+`).FindAllString(printed, -1); found != nil {
		f.real["chr_…"] = found[len(found)-1]
	}
}

// substitute puts facts in place of what stands on the page.
func (f *follower) substitute(script string) string {
	var pairs []string
	for _, page := range longestFirst(slices.Collect(maps.Keys(f.real))) {
		pairs = append(pairs, page, f.real[page])
	}
	return strings.NewReplacer(pairs...).Replace(script)
}

// asOnPage undoes substitute for addresses, names of files and the like.
func (f *follower) asOnPage(printed string) string {
	onPage := map[string]string{f.dir: "~/chronos"}
	if host, err := os.Hostname(); err == nil {
		onPage[host] = "timers-1"
	}
	for page, fact := range f.real {
		if !strings.HasPrefix(page, "localhost:") && strings.ContainsAny(fact, ":/") {
			onPage[fact] = page
		}
	}
	var pairs []string
	for _, fact := range longestFirst(slices.Collect(maps.Keys(onPage))) {
		pairs = append(pairs, fact, onPage[fact])
	}
	return strings.NewReplacer(pairs...).Replace(printed)
}

func longestFirst(texts []string) []string {
	slices.Sort(texts)
	slices.SortStableFunc(texts, func(a, b string) int { return len(b) - len(a) })
	return texts
}
