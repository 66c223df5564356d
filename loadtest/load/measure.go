package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"chronos/loadtest/check"
	"chronos/loadtest/child"
	"chronos/loadtest/fakenode"
	"chronos/scheduler/verify/history"
)

// measure starts everything, lets the scenario run, and stops everything. measure may return a result with an error.
func measure(ctx context.Context, o *options) (r *result, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.duration+spareLimit)
	defer cancel()
	receiver, receiverURL, err := startReceiver(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = receiver.Stop() }() // the report has the status
	nodeURL, stopNode, err := startNode(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopNode()) }()

	r = &result{options: o}
	if r.summary, r.loadErr = o.scenario.generate(ctx, o, nodeURL, receiverURL); len(r.summary.Metrics) == 0 {
		return nil, r.loadErr
	}
	body, err := child.Ask(ctx, http.MethodPost, receiverURL+"/control/finish?grace="+o.scenario.grace.String())
	if err != nil {
		return nil, fmt.Errorf("end receiver: %w", err)
	}
	if err := json.Unmarshal(body, &r.report); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if err := os.WriteFile(o.out("report.json"), body, 0o644); err != nil {
		return nil, fmt.Errorf("keep report: %w", err)
	}
	switch err := receiver.Wait(ctx); {
	case err == nil && !r.report.Passed:
		return r, errors.New("end receiver: it ended well although callbacks were wrong")
	case err != nil && r.report.Passed:
		return r, fmt.Errorf("end receiver: %w", err)
	}
	return r, r.judge(o.out(historyFile))
}

const historyFile = "history.jsonl"

// judge judges the history that the receiver wrote: a second opinion, by different code.
func (r *result) judge(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("judge history: %w", err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	h, err := history.ReadAll(file)
	if err != nil {
		return fmt.Errorf("judge history: %w", err)
	}
	judged := history.Check(h)
	r.judged = &judged
	return nil
}

// runK6 lets k6 run the script of the scenario. Figures with an error mean that an answer was wrong.
func runK6(ctx context.Context, o *options, nodeURL, receiverURL string) (figures summary, err error) {
	path := o.out("k6.json")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return summary{}, fmt.Errorf("remove old figures: %w", err)
	}
	k6, err := child.Start(ctx, "k6", o.out(""), nil, o.bin("k6"), "run",
		"--quiet", "--no-color", "--no-usage-report", "--address", "", "--summary-export", path,
		"-e", "CHRONOS_URL="+nodeURL, "-e", "RECEIVER_URL="+receiverURL,
		"-e", "RATE="+strconv.Itoa(o.rate), "-e", "DURATION="+o.duration.String(),
		filepath.Join(o.root, "loadtest", "k6", o.scenario.name+".js"))
	if err != nil {
		return summary{}, err
	}
	defer func() { _ = k6.Stop() }()
	err = k6.Wait(ctx)
	if ctx.Err() != nil {
		return summary{}, err
	}
	if bad := readJSON(path, &figures); bad != nil {
		return summary{}, errors.Join(err, bad)
	}
	return figures, err
}

func startReceiver(ctx context.Context, o *options) (p *child.Process, url string, err error) {
	address, err := child.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	url = "http://" + address
	p, err = child.Start(ctx, "receiver", o.out(""), nil, o.bin("receiver"),
		"-check", "-history", o.out(historyFile), "-listen", address, "-for", (o.duration + spareLimit).String())
	if err != nil {
		return nil, "", err
	}
	if err := p.Until(ctx, child.Answers(url+"/control/report")); err != nil {
		return nil, "", errors.Join(err, p.Stop())
	}
	return p, url, nil
}

// startNode starts a node, or the fake node. stop stops the node and removes the node's data.
func startNode(ctx context.Context, o *options) (url string, stop func() error, err error) {
	if o.fake {
		fake, err := fakenode.Start(ctx, o.bug)
		if err != nil {
			return "", nil, err
		}
		return fake.URL(), func() error { fake.Close(); return nil }, nil
	}
	public, err := child.FreeAddress()
	if err != nil {
		return "", nil, err
	}
	admin, err := child.FreeAddress()
	if err != nil {
		return "", nil, err
	}
	data, err := os.MkdirTemp("", "chronos-load-")
	if err != nil {
		return "", nil, fmt.Errorf("start node: %w", err)
	}
	env := []string{"CHRONOS_DATA_DIR=" + data, "CHRONOS_LISTEN=" + public, "CHRONOS_ADMIN_LISTEN=" + admin}
	node, err := child.Start(ctx, "node", o.out(""), env, o.bin("chronos"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(data))
	}
	stop = func() error {
		err := node.Stop()
		if n := killInDirectory(data); n > 0 {
			err = errors.Join(err, fmt.Errorf("stop node: it left %d processes", n))
		}
		return errors.Join(err, keepLogs(data, o.out("")), os.RemoveAll(data))
	}
	if err := node.Until(ctx, child.Answers("http://"+admin+"/readyz")); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return "http://" + public, stop, nil
}

// keepLogs copies the logs of the node's redis-server from a directory to another.
func keepLogs(from, to string) error {
	logs, err := filepath.Glob(filepath.Join(from, "*.log"))
	if err != nil {
		return fmt.Errorf("keep logs: %w", err)
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(path)), content, 0o644)
		}
		if err != nil {
			return fmt.Errorf("keep logs: %w", err)
		}
	}
	return nil
}

func readJSON(path string, value any) error {
	body, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(body, value)
	}
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	return nil
}

// result is the result of a run.
type result struct {
	options *options
	summary summary
	loadErr error // nil if every answer was right, and in time for k6
	report  check.Report
	judged  *history.Report // nil if the history could not be judged
}

// right reports whether all answers and callbacks were right.
func (r *result) right() bool {
	return r.loadErr == nil && r.report.Passed && (r.judged == nil || r.judged.Verdict != history.VerdictFailed)
}

// enough reports whether the run did enough to prove anything.
func (r *result) enough() bool { return len(r.tooFew()) == 0 }
