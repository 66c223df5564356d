//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

const installLimit = 3 * time.Minute

// bullMQ is the path of the script for both programs of the peer.
func (b *bench) bullMQ() string {
	return filepath.Join(b.root, "loadtest", "bench", "bullmq", "bench.mjs")
}

// installBullMQ downloads the packages of package-lock.json into node_modules beside the script.
func (b *bench) installBullMQ(ctx context.Context) error {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("install BullMQ: -peers needs %s, which is not on PATH (Debian: apt-get install nodejs npm)", program)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = filepath.Dir(b.bullMQ())
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install BullMQ: %w\n%s", err, output)
	}
	return nil
}
