package operatorfile

import (
	"errors"
	"fmt"
)

// maxFaults is how many faults an error lists.
const maxFaults = 20

// Faults collects the faults of a file's lines.
type Faults struct {
	kind    Kind
	listed  []error
	dropped int // faults beyond maxFaults
}

// Faults returns an empty collection.
func (k Kind) Faults() Faults { return Faults{kind: k} }

// Add adds a fault of a line. The text must hold no word of the file.
func (f *Faults) Add(line int, text string) {
	if len(f.listed) == maxFaults {
		f.dropped++
		return
	}
	f.listed = append(f.listed, fmt.Errorf("%s line %d: %s", f.kind, line, text))
}

// Err returns the faults, one per line, or nil. Err names the first 20 faults and counts the others.
func (f *Faults) Err() error {
	if f.dropped > 0 {
		return errors.Join(append(f.listed, fmt.Errorf("and %d more faults", f.dropped))...)
	}
	return errors.Join(f.listed...)
}
