package destinations

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a file.
const (
	maxFile        = 1 << 20
	maxLines       = 1000
	maxFaults      = 20 // that a message lists
	minRate        = 0.001
	maxRate        = 1e6
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

var (
	errTooLarge = errors.New("the destinations file is over 1 MiB")
	errNoFile   = errors.New("the destinations file must be a regular file")
)

// readFile reads at most as much as a destinations file may hold.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // opening a pipe would block
	if err != nil {
		return nil, fmt.Errorf("find destinations file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open destinations file: %w", err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read destinations file: %w", err)
	}
	if len(text) > maxFile {
		return nil, errTooLarge
	}
	return text, nil
}

// ParseFile reads the text of a destinations file; name is the one name of a destination, as of
// NewBook. The error lists all faults, a line for every fault, and shows no word of the text.
func ParseFile(text []byte, name func(string) (string, error)) (map[string]Limit, error) {
	p := parser{name: name, limits: map[string]Limit{}, lines: map[string]int{}}
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		n++
		words := strings.Fields(line)
		if i := slices.IndexFunc(words, func(w string) bool { return w[0] == '#' }); i >= 0 {
			words = words[:i]
		}
		if len(words) > 0 {
			p.line(n, words)
		}
	}
	if p.dropped > 0 {
		p.faults = append(p.faults, fmt.Errorf("and %d more faults", p.dropped))
	}
	if err := errors.Join(p.faults...); err != nil {
		return nil, err
	}
	return p.limits, nil
}

// parser collects the limits and the faults of a file's lines.
type parser struct {
	name    func(string) (string, error)
	limits  map[string]Limit
	lines   map[string]int // by destination
	faults  []error
	dropped int // faults beyond maxFaults
}

func (p *parser) fault(n int, text string) {
	if len(p.faults) == maxFaults {
		p.dropped++
		return
	}
	p.faults = append(p.faults, fmt.Errorf("destinations file line %d: %s", n, text))
}

// line takes the words of line n; there is at least one word.
func (p *parser) line(n int, words []string) {
	if len(words) < 2 {
		p.fault(n, faultShape)
		return
	}
	name, err := p.name(words[0])
	if err != nil {
		p.fault(n, "the destination "+err.Error())
		return
	}
	limit, fault := parseLimit(words[1:])
	other, again := p.lines[name]
	switch {
	case fault != "":
		p.fault(n, fault)
	case again:
		p.fault(n, faultTwice+" "+strconv.Itoa(other))
	case len(p.limits) == maxLines:
		p.fault(n, faultMany)
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
			rate, err := strconv.ParseFloat(value, 64)
			if err != nil || !isDecimal(value) || rate < minRate || rate > maxRate {
				return l, faultRate
			}
			l.Rate = rate
		case key == "burst" && l.Burst == 0:
			if l.Burst = whole(value, maxBurst); l.Burst == 0 {
				return l, faultBurst
			}
		case key == "concurrency" && l.Concurrency == 0:
			if l.Concurrency = whole(value, maxConcurrency); l.Concurrency == 0 {
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

// whole is a whole number from 1 to most; 0 for any other text.
func whole(text string, most int) int {
	n, err := strconv.Atoi(text)
	if err != nil || !isDecimal(text) || n < 1 || n > most {
		return 0
	}
	return n
}

// isDecimal reports whether text has only digits and points: no sign, exponent, hex or name of a
// number.
func isDecimal(text string) bool { return strings.Trim(text, "0123456789.") == "" }
