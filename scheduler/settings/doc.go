// Package settings has the settings of the engine: durations, bounds and clocks, and the
// inequalities between durations.
package settings
