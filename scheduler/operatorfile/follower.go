package operatorfile

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"time"
)

// LookInterval is the time between two looks at a file. A change counts after two looks with the
// same result, so within 5 s.
const LookInterval = 2 * time.Second

// Follower notices the changes of a file. A Follower is not safe for concurrent use.
//
// The Follower reads the whole small file at every look instead of comparing times and inodes. The
// Follower thus notices every kind of change. The file may be new under the old name, or behind a
// changed symbolic link (as Kubernetes changes a secret). Bytes may change in place within a tick
// of the file system's clock.
type Follower struct {
	kind  Kind
	path  string
	last  sight // the result of the last look
	acted sight // the result that was last acted on
}

// sight is the result of a look at the file.
type sight struct {
	sum   [sha256.Size]byte // of the whole text
	mode  fs.FileMode
	fault string // why the file could not be read
}

// Follow returns the follower of the file at path, whose present content the caller has used.
func (k Kind) Follow(path string, present Content) *Follower {
	seen := sightOf(present, nil)
	return &Follower{kind: k, path: path, last: seen, acted: seen}
}

// Run looks at the file every LookInterval until ctx ends. See Look.
func (f *Follower) Run(ctx context.Context, act func(Content, error)) {
	ticker := time.NewTicker(LookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.Look(act)
		}
	}
}

// Look reads the file, and calls act with a new content, or with the reason why the file can't be
// read. A change counts after two looks with the same result: a slow writer may have written only
// half of the file before the first look.
func (f *Follower) Look(act func(Content, error)) {
	content, err := f.kind.Read(f.path)
	seen := sightOf(content, err)
	settled := seen == f.last
	f.last = seen
	if settled && seen != f.acted {
		f.acted = seen
		act(content, err)
	}
}

func sightOf(c Content, err error) sight {
	if err != nil {
		return sight{fault: err.Error()}
	}
	return sight{sum: sha256.Sum256(c.Text), mode: c.Mode}
}
