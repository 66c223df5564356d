// Package settings has what the engine is told by its process: durations, bounds and clocks,
// and the inequalities between them.
package settings
