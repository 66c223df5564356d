package tokens

import (
	"context"
	"crypto/sha256"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"
)

const defaultInterval = 2 * time.Second

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	// Path is where the tokens file is. Path may be a symbolic link.
	Path string
	// Interval is the time between two looks at the file; 0 for 2 s. A change counts after two
	// looks with the same result.
	Interval time.Duration
	// Log takes what an operator should know about the file; nil for none.
	Log *slog.Logger
}

// Keeper has the tokens of a file that may change. A Keeper is safe for concurrent use.
//
// The Keeper reads the whole small file at every look instead of comparing times and inodes. The
// Keeper thus notices every kind of change. The file may be new under the old name, or behind a
// changed symbolic link (as Kubernetes changes a secret). Bytes may change in place within a tick
// of the file system's clock.
//
// While the file is missing or wrong, the last valid tokens stay in force. Removing the file
// therefore revokes nothing; removing a line does.
type Keeper struct {
	path     string
	interval time.Duration
	log      *slog.Logger
	set      atomic.Pointer[Set]

	// Only Run uses the fields below.
	last  sight // the result of the last look
	acted sight // the content that was last accepted or refused
}

// sight is the result of a look at the file.
type sight struct {
	sum   [sha256.Size]byte // of the whole text
	mode  fs.FileMode
	fault string // why the file could not be read
}

// Open reads the file and returns the file's keeper. The error is like Load's error. Open blocks on
// the file system. Warnings about the file are logged.
func Open(cfg KeeperConfig) (*Keeper, error) {
	k := &Keeper{path: cfg.Path, interval: cfg.Interval, log: cfg.Log}
	if k.interval <= 0 {
		k.interval = defaultInterval
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	text, mode, err := readFile(k.path)
	if err != nil {
		return nil, err
	}
	set, err := parseFile(text, mode)
	if err != nil {
		return nil, err
	}
	k.last = sightOf(text, mode, nil)
	k.acted = k.last
	k.use(set)
	return k, nil
}

// Run looks at the file again and again until ctx ends. Run must not be called twice. Without Run
// the tokens stay the tokens of the start.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(k.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.look()
		}
	}
}

// Check is Set.Check with the tokens that are valid now.
func (k *Keeper) Check(authorization []byte, need Role, now time.Time) Decision {
	return k.set.Load().Check(authorization, need, now)
}

// look acts on a change after two looks with the same result: a slow writer may have written only
// half of the file before the first look.
func (k *Keeper) look() {
	text, mode, err := readFile(k.path)
	seen := sightOf(text, mode, err)
	settled := seen == k.last
	k.last = seen
	if !settled || seen == k.acted {
		return
	}
	k.acted = seen
	var set *Set
	if err == nil {
		set, err = parseFile(text, mode)
	}
	if err != nil {
		k.log.Error("tokens file can't be used; the tokens read before stay valid", "error", err)
		return
	}
	set.inherit(k.set.Load(), time.Now())
	k.use(set)
}

func (k *Keeper) use(set *Set) {
	k.set.Store(set)
	k.log.Info("tokens file read", "tokens", set.Len())
	for _, warning := range set.Warnings() {
		k.log.Warn(warning)
	}
}

func sightOf(text []byte, mode fs.FileMode, err error) sight {
	if err != nil {
		return sight{fault: err.Error()}
	}
	return sight{sum: sha256.Sum256(text), mode: mode}
}
