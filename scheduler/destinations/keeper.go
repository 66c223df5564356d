package destinations

import (
	"context"
	"fmt"
	"log/slog"

	"chronos/scheduler/operatorfile"
)

// Keeper brings the limits of a file that may change into a Book. While the file is missing or
// wrong, the last valid limits stay in force. Removing the file therefore lifts no limit; removing
// a line does.
type Keeper struct {
	file *operatorfile.Follower
	book *Book
	log  *slog.Logger
}

// Open reads the file at path into the book. The error lists all faults of the file, and shows no
// word of the file. Open blocks on the file system.
func Open(path string, book *Book, log *slog.Logger) (*Keeper, error) {
	content, err := kind.Read(path)
	if err != nil {
		return nil, err
	}
	k := &Keeper{file: kind.Follow(path, content), book: book, log: log}
	if err := k.use(content); err != nil {
		return nil, fmt.Errorf("read destinations file: %w", err)
	}
	return k, nil
}

// Run follows the file until ctx ends. Run must not be called twice. Without Run the limits stay
// the limits of the start.
func (k *Keeper) Run(ctx context.Context) {
	k.file.Run(ctx, func(content operatorfile.Content, err error) {
		if err == nil {
			err = k.use(content)
		}
		if err != nil {
			k.log.Error("destinations file can't be used; the limits read before stay in force", "error", err)
		}
	})
}

func (k *Keeper) use(content operatorfile.Content) error {
	limits, err := ParseFile(content.Text, k.book.Parse)
	if err != nil {
		return err
	}
	k.book.Limit(limits)
	k.log.Info("destinations file read", "destinations", len(limits))
	return nil
}
