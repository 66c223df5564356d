package destinations

import (
	"math"
	"strconv"
	"strings"

	"chronos/scheduler/operatorfile"
)

const kind operatorfile.Kind = "destinations file"

// Bounds of a file.
const (
	maxLines       = 1000
	maxBurst       = 1_000_000
	maxConcurrency = 1_000_000
)

// Faults of a line. The texts hold no words of the file: a URI may hold a password.
const (
	faultShape       = "want a destination and limits: https://api.example.com rate=<callbacks per second> burst=<callbacks> concurrency=<callbacks>"
	faultOption      = "after the destination only rate=<callbacks per second>, burst=<callbacks> and concurrency=<callbacks> may stand, each once"
	faultRate        = "rate must be a decimal number of callbacks per second from 0.001 to 1000000"
	faultBurst       = "burst must be a whole number of callbacks from 1 to 1000000"
	faultConcurrency = "concurrency must be a whole number of callbacks from 1 to 1000000"
	faultBurstOnly   = "burst needs a rate"
	faultTwice       = "the destination is the same as on line"
	faultMany        = "there are more than 1000 destinations; remove some"
)

// ParseFile reads the text of a destinations file; name is the one name of a destination, as of
// NewBook. The error lists all faults, a line for every fault, and shows no word of the text.
func ParseFile(text []byte, name func(string) (string, error)) (map[string]Limit, error) {
	p := parser{name: name, limits: map[string]Limit{}, lines: map[string]int{}, faults: kind.Faults()}
	for n, words := range operatorfile.Lines(text) {
		p.line(n, words)
	}
	if err := p.faults.Err(); err != nil {
		return nil, err
	}
	return p.limits, nil
}

// parser collects the limits and the faults of a file's lines.
type parser struct {
	name   func(string) (string, error)
	limits map[string]Limit
	lines  map[string]int // by destination
	faults operatorfile.Faults
}

// line takes the words of line n; there is at least one word.
func (p *parser) line(n int, words []string) {
	if len(words) < 2 {
		p.faults.Add(n, faultShape)
		return
	}
	name, err := p.name(words[0])
	if err != nil {
		p.faults.Add(n, "the destination "+err.Error())
		return
	}
	limit, fault := parseLimit(words[1:])
	other, again := p.lines[name]
	switch {
	case fault != "":
		p.faults.Add(n, fault)
	case again:
		p.faults.Add(n, faultTwice+" "+strconv.Itoa(other))
	case len(p.limits) == maxLines:
		p.faults.Add(n, faultMany)
	default:
		p.limits[name], p.lines[name] = limit, n
	}
}

// parseLimit reads the words after the destination, and returns the first fault, or "".
func parseLimit(words []string) (l Limit, fault string) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "rate" && l.Rate == 0:
			if l.Rate = operatorfile.Rate(value); l.Rate == 0 {
				return l, faultRate
			}
		case key == "burst" && l.Burst == 0:
			if l.Burst = operatorfile.Whole(value, maxBurst); l.Burst == 0 {
				return l, faultBurst
			}
		case key == "concurrency" && l.Concurrency == 0:
			if l.Concurrency = operatorfile.Whole(value, maxConcurrency); l.Concurrency == 0 {
				return l, faultConcurrency
			}
		default:
			return l, faultOption
		}
	}
	switch {
	case l.Burst > 0 && l.Rate == 0:
		return l, faultBurstOnly
	case l.Burst == 0 && l.Rate > 0:
		l.Burst = int(math.Ceil(l.Rate))
	}
	return l, ""
}
