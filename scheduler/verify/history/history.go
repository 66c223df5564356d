package history

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
)

// History is everything a run recorded. The order within the slices doesn't matter.
type History struct {
	Header     Header
	Operations []Operation
	Callbacks  []Callback
	Faults     []Fault
	Homes      []Home
	Copies     []Copy
	Strays     []Stray
	Samples    []Sample
	// End is nil if the run was cut short. The verdict is unknown then.
	End *End
}

func (h *History) add(e *Event, first bool) error {
	if (e.Header != nil) != first {
		return errors.New("the header is the first line, and no other is")
	}
	switch {
	case e.Header != nil:
		h.Header = *e.Header
	case e.Operation != nil:
		h.Operations = append(h.Operations, *e.Operation)
	case e.Callback != nil:
		h.Callbacks = append(h.Callbacks, *e.Callback)
	case e.Fault != nil:
		h.Faults = append(h.Faults, *e.Fault)
	case e.Home != nil:
		h.Homes = append(h.Homes, *e.Home)
	case e.Copy != nil:
		h.Copies = append(h.Copies, *e.Copy)
	case e.Stray != nil:
		h.Strays = append(h.Strays, *e.Stray)
	case e.Sample != nil:
		h.Samples = append(h.Samples, *e.Sample)
	case h.End != nil:
		return errors.New("the end is there twice")
	default:
		h.End = e.End
	}
	return nil
}

// Events are the lines of a history.
func (h *History) Events() []Event {
	all := []Event{{Header: &h.Header}}
	for i := range h.Operations {
		all = append(all, Event{Operation: &h.Operations[i]})
	}
	for i := range h.Callbacks {
		all = append(all, Event{Callback: &h.Callbacks[i]})
	}
	for i := range h.Faults {
		all = append(all, Event{Fault: &h.Faults[i]})
	}
	for i := range h.Homes {
		all = append(all, Event{Home: &h.Homes[i]})
	}
	for i := range h.Copies {
		all = append(all, Event{Copy: &h.Copies[i]})
	}
	for i := range h.Strays {
		all = append(all, Event{Stray: &h.Strays[i]})
	}
	for i := range h.Samples {
		all = append(all, Event{Sample: &h.Samples[i]})
	}
	if h.End != nil {
		all = append(all, Event{End: h.End})
	}
	return all
}

// Keep writes a history to a file, for ReadAll. Keep leaves an invalid event out and returns an error.
func (h *History) Keep(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keep history: %w", err)
	}
	w := NewWriter(file)
	var errs []error
	for _, e := range h.Events() {
		errs = append(errs, w.Write(e))
	}
	return errors.Join(append(errs, w.Flush(), file.Close())...)
}

// HashOf is the hash by which a history names a body.
func HashOf[B string | []byte](body B) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:8])
}
