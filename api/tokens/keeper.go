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
	// Path is where the tokens file is. It may be a symbolic link.
	Path string
	// Interval is the time between two looks at the file; 0 for 2 s. What
	// changed counts after two looks that saw the same.
	Interval time.Duration
	// Log takes what an operator should know about the file; nil for none.
	Log *slog.Logger
}

// Keeper has the tokens of a file that may change. It is safe for concurrent
// use.
//
// It reads the whole file at every look rather than ask for its times and
// inode: the file is small, and so no way of changing it goes unnoticed, be it
// a new file under the name, a symbolic link to elsewhere (as Kubernetes
// changes a secret) or bytes changed in place within one tick of the file
// system's clock.
//
// While the file is missing or wrong the tokens read last stay valid, so
// removing it revokes nothing; removing a line does.
type Keeper struct {
	path     string
	interval time.Duration
	log      *slog.Logger
	set      atomic.Pointer[Set]

	// Of Run alone.
	last  sight // what the last look saw
	acted sight // what was last taken or refused
}

// sight is what one look at the file saw.
type sight struct {
	sum   [sha256.Size]byte // of the whole text
	mode  fs.FileMode
	fault string // why it could not be read
}

// Open reads the file and returns its keeper. Its error is as Load's. It blocks
// on the file system. What is to be known of the file is logged.
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

// Run looks at the file again and again until ctx ends. It must not be called
// twice. Without it the tokens stay those of the start.
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

// Check is the Check of the tokens that are valid now.
func (k *Keeper) Check(authorization []byte, need Role, now time.Time) Decision {
	return k.set.Load().Check(authorization, need, now)
}

// look acts on a change that two looks saw: someone who writes the file in
// place may be half way at the first.
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
