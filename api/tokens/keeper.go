package tokens

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"chronos/scheduler/operatorfile"
)

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	// Path is where the tokens file is. Path may be a symbolic link.
	Path string
	// Log takes what an operator should know about the file; nil for none.
	Log *slog.Logger
}

// Keeper has the tokens of a file that may change. A Keeper is safe for concurrent use. While the
// file is missing or wrong, the last valid tokens stay in force. Removing the file therefore
// revokes nothing; removing a line does.
type Keeper struct {
	file *operatorfile.Follower // used by Run alone
	log  *slog.Logger
	set  atomic.Pointer[Set]
}

// Open reads the file and returns the file's keeper. The error is like Load's error. Open blocks on
// the file system. Warnings about the file are logged.
func Open(cfg KeeperConfig) (*Keeper, error) {
	k := &Keeper{log: cfg.Log}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	content, err := kind.Read(cfg.Path)
	if err != nil {
		return nil, err
	}
	set, err := parseFile(content)
	if err != nil {
		return nil, err
	}
	k.file = kind.Follow(cfg.Path, content)
	k.use(set)
	return k, nil
}

// Run follows the file until ctx ends. Run must not be called twice. Without Run the tokens stay
// the tokens of the start.
func (k *Keeper) Run(ctx context.Context) { k.file.Run(ctx, k.change) }

// Check is Set.Check with the tokens that are valid now.
func (k *Keeper) Check(authorization []byte, need Role, now time.Time) Decision {
	return k.set.Load().Check(authorization, need, now)
}

// change takes the new content of the file.
func (k *Keeper) change(content operatorfile.Content, err error) {
	var set *Set
	if err == nil {
		set, err = parseFile(content)
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
