package history

import "errors"

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
	// End is nil if the run was cut short: then nothing can be said.
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
