package destinations

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"
)

// lookInterval is the time between two looks at the file. A change counts after two looks with the
// same result, so within 5 s.
const lookInterval = 2 * time.Second

// Keeper brings the limits of a file that may change into a Book. Like the keeper of the tokens
// file, a Keeper reads the whole small file at every look, and thus notices every kind of change.
// While the file is missing or wrong, the last valid limits stay in force. Removing the file
// therefore lifts no limit; removing a line does.
type Keeper struct {
	path string
	book *Book
	log  *slog.Logger

	// Only Run uses the fields below.
	last  sight // the result of the last look
	acted sight // the content that was last accepted or refused
}

// sight is the result of a look at the file.
type sight struct {
	sum   [sha256.Size]byte // of the whole text
	fault string            // why the file could not be read
}

// Open reads the file at path into the book. The error lists all faults of the file, and shows no
// word of the file. Open blocks on the file system.
func Open(path string, book *Book, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{path: path, book: book, log: log}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if err := k.use(text); err != nil {
		return nil, fmt.Errorf("read destinations file: %w", err)
	}
	k.last = sightOf(text, nil)
	k.acted = k.last
	return k, nil
}

// Run looks at the file again and again until ctx ends. Run must not be called twice. Without Run
// the limits stay the limits of the start.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
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

// look acts on a change after two looks with the same result: a slow writer may have written only
// half of the file before the first look.
func (k *Keeper) look() {
	text, err := readFile(k.path)
	seen := sightOf(text, err)
	settled := seen == k.last
	k.last = seen
	if !settled || seen == k.acted {
		return
	}
	k.acted = seen
	if err == nil {
		err = k.use(text)
	}
	if err != nil {
		k.log.Error("destinations file can't be used; the limits read before stay in force", "error", err)
	}
}

func (k *Keeper) use(text []byte) error {
	limits, err := ParseFile(text, k.book.Parse)
	if err != nil {
		return err
	}
	k.book.Limit(limits)
	k.log.Info("destinations file read", "destinations", len(limits))
	return nil
}

func sightOf(text []byte, err error) sight {
	if err != nil {
		return sight{fault: err.Error()}
	}
	return sight{sum: sha256.Sum256(text)}
}
