//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"chronos/loadtest/child"
)

// Node is a chronos node.
type Node struct {
	*child.Process
	Address string // host:port of the API
	Admin   string // host:port of health, metrics and profiles

	runtimeDir string
}

// Ask asks the admin listener as the node's user, with the token that the node made. body is JSON.
// The caller must close the body of the answer.
func (n *Node) Ask(ctx context.Context, method, path, body string) (*http.Response, error) {
	name := "admin-" + strings.ReplaceAll(n.Admin, ":", "-") + ".token"
	token, err := os.ReadFile(filepath.Join(n.runtimeDir, "chronos", name))
	if err != nil {
		return nil, fmt.Errorf("read token of the node: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.Admin+path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the node: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the node: %w", err)
	}
	return response, nil
}

// StartNode starts a node on the given shards and waits until the node is ready. The caller must
// call Stop. more is added to the environment of the node.
func StartNode(ctx context.Context, dir, binary string, shards []*Redis, more ...string) (*Node, error) {
	public, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	var list []string
	for i, r := range shards {
		list = append(list, string(rune('a'+i))+"=redis://"+r.Address+"/0")
	}
	process, err := child.Start(ctx, "node", dir, append([]string{
		"CHRONOS_REDIS=" + strings.Join(list, ","), "CHRONOS_LISTEN=" + public, "CHRONOS_ADMIN_LISTEN=" + admin,
		"XDG_RUNTIME_DIR=" + dir,
	}, more...), binary)
	if err != nil {
		return nil, err
	}
	if err := process.Until(ctx, child.Answers("http://"+admin+"/readyz")); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return &Node{Process: process, Address: public, Admin: admin, runtimeDir: dir}, nil
}
