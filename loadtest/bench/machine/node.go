//go:build linux

package machine

import (
	"context"
	"errors"
	"strings"
)

// Node is a chronos node.
type Node struct {
	*Process
	Address string // host:port of its API
	Admin   string // host:port of its health, metrics and profiles
}

// StartNode starts a node on the given shards and waits until it is ready. Stop
// must be called. More is added to its environment.
func StartNode(ctx context.Context, dir, binary string, shards []*Redis, more ...string) (*Node, error) {
	public, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	for i, r := range shards {
		list = append(list, string(rune('a'+i))+"=redis://"+r.Address+"/0")
	}
	process, err := Start(ctx, "node", dir, append([]string{
		"CHRONOS_REDIS=" + strings.Join(list, ","), "CHRONOS_LISTEN=" + public, "CHRONOS_ADMIN_LISTEN=" + admin,
	}, more...), binary)
	if err != nil {
		return nil, err
	}
	if err := process.Until(ctx, Answers("http://"+admin+"/readyz")); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return &Node{Process: process, Address: public, Admin: admin}, nil
}
