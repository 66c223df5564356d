package wire

import "chronos/scheduler/forecast"

// LoadView is how much comes due when, as the admin listener shows the load.
type LoadView struct {
	From   string  `json:"from"`
	StepMS int64   `json:"step_ms"`
	Copies []int64 `json:"copies"`       // for each bucket
	Timers []int64 `json:"timers_about"` // for each bucket
	// Unreached are the shards whose copies are missing.
	Unreached []string `json:"unreached"`
}

// ViewLoad makes the view of a load.
func ViewLoad(l *forecast.Load) LoadView {
	return LoadView{
		From: formatInstant(l.From), StepMS: l.Step.Milliseconds(),
		Copies: append([]int64{}, l.Copies...), Timers: append([]int64{}, l.Timers...), Unreached: listed(l.Unreached),
	}
}
