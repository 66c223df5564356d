package tokens

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a file.
const (
	maxFile   = 1 << 20
	maxTokens = 1000
	maxFaults = 20 // that a message lists
	minRate   = 0.001
	maxRate   = 1e6
	maxBurst  = 1e6
)

// Faults of a line. The texts hold no words of the file: a token may stand in the place of a name.
const (
	faultShape     = "want a name, roles and a hash: orders write sha256:<64 hex digits> [rate=<requests per second>] [burst=<requests>] [prefix=<begin of ids>]"
	faultName      = "the name must be 1 to 32 of the characters A-Z a-z 0-9 . _ - and not begin with chr_"
	faultRoles     = "roles are read, write and admin, several separated by commas"
	faultHash      = "the hash must be sha256: and 64 hex digits"
	faultToken     = "a token itself stands here; put its hash, and make another token, since this one was written down"
	faultOption    = "after the hash only rate=<requests per second>, burst=<requests> and prefix=<begin of ids> may stand, each once"
	faultRate      = "rate must be a decimal number of requests per second from 0.001 to 1000000"
	faultBurst     = "burst must be a whole number of requests from 1 to 1000000"
	faultBurstOnly = "burst needs a rate"
	faultPrefix    = "prefix must be 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -, not begin with chr_, and not be references, batch, . or .., which no id may be"
	faultAdmin     = "a token with a prefix can't have the role admin, which operates the cluster with the timers of all; take the role write, or leave out the prefix"
	faultUnlike    = "roles, rate, burst and prefix must be those of the same name on line"
	faultTwice     = "the hash is the same as on line"
	faultMany      = "there are more than 1000 tokens; remove some"
)

var (
	errNoTokens = errors.New("the tokens file has no tokens; `chronos token <name> <roles>` makes one and its line")
	errTooLarge = errors.New("the tokens file is over 1 MiB")
	errNoFile   = errors.New("the tokens file must be a regular file")
)

// Load reads the tokens file at path. The error lists all faults, a line for every fault, and never
// shows a token or hash. Load blocks on the file system.
func Load(path string) (*Set, error) {
	text, mode, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseFile(text, mode)
}

// readFile reads at most as much as a tokens file may hold.
func readFile(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path) // opening a pipe would block
	if err != nil {
		return nil, 0, fmt.Errorf("find tokens file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errNoFile
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open tokens file: %w", err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read tokens file: %w", err)
	}
	if len(text) > maxFile {
		return nil, 0, errTooLarge
	}
	return text, info.Mode(), nil
}

// parseFile is Parse with warnings about the file's mode.
func parseFile(text []byte, mode fs.FileMode) (*Set, error) {
	s, err := Parse(text)
	if err == nil && mode.Perm()&0o027 != 0 {
		s.list.warnings = append(s.list.warnings, fmt.Sprintf(
			"others may read or change the tokens file (its mode is %04o); set it to 0640 or less", mode.Perm()))
	}
	return s, err
}

// Parse reads the text of a tokens file. The error is like Load's error.
func Parse(text []byte) (*Set, error) {
	p := parser{first: map[string]claim{}, hashes: map[digest]int{}}
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
	if len(p.claims) == 0 {
		return nil, errNoTokens
	}
	return newSet(p.claims), nil
}

// parser collects the claims and the faults of a file's lines.
type parser struct {
	claims  []claim
	first   map[string]claim // by name
	hashes  map[digest]int   // to the number of the hash's line
	faults  []error
	dropped int // faults beyond maxFaults
}

// claim is the content of a line.
type claim struct {
	line   int
	name   string
	role   Role
	digest digest
	rate   float64 // requests per second, 0 for no limit
	burst  int
	prefix string // of the ids that the token may use, "" for all ids
}

func (p *parser) fault(n int, text string) {
	if len(p.faults) == maxFaults {
		p.dropped++
		return
	}
	p.faults = append(p.faults, fmt.Errorf("tokens file line %d: %s", n, text))
}

// line takes the words of line n; there is at least one word.
func (p *parser) line(n int, words []string) {
	if slices.ContainsFunc(words, func(w string) bool { return isToken([]byte(strings.TrimPrefix(w, prefixOption))) }) {
		p.fault(n, faultToken)
		return
	}
	if len(words) < 3 {
		p.fault(n, faultShape)
		return
	}
	c, faults := parseClaim(words)
	c.line = n
	for _, text := range faults {
		p.fault(n, text)
	}
	if len(faults) > 0 {
		return
	}
	if other, again := p.hashes[c.digest]; again {
		p.fault(n, faultTwice+" "+strconv.Itoa(other))
		return
	}
	p.hashes[c.digest] = n
	other, again := p.first[c.name]
	switch {
	case !again:
		p.first[c.name] = c
	case c.role != other.role || c.rate != other.rate || c.burst != other.burst || c.prefix != other.prefix:
		p.fault(n, faultUnlike+" "+strconv.Itoa(other.line))
	}
	if len(p.claims) == maxTokens {
		p.fault(n, faultMany)
		return
	}
	p.claims = append(p.claims, c)
}

// parseClaim reads the words of a line, at least three words, and returns the faults.
func parseClaim(words []string) (claim, []string) {
	c := claim{name: words[0]}
	var faults []string
	if !isName(c.name) {
		faults = append(faults, faultName)
	}
	var err error
	if c.role, err = ParseRoles(words[1]); err != nil {
		faults = append(faults, faultRoles)
	}
	text, found := strings.CutPrefix(words[2], hashPrefix)
	sum, err := hex.DecodeString(text)
	if !found || err != nil || len(sum) != len(c.digest) {
		faults = append(faults, faultHash)
	}
	copy(c.digest[:], sum)
	switch text := c.options(words[3:]); {
	case text != "":
		faults = append(faults, text)
	case c.prefix != "" && c.role == Admin:
		faults = append(faults, faultAdmin)
	}
	return c, faults
}

// options reads the words after the hash, and returns the first fault, or "".
func (c *claim) options(words []string) string {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "rate" && c.rate == 0:
			rate, err := strconv.ParseFloat(value, 64)
			if err != nil || !isDecimal(value) || rate < minRate || rate > maxRate {
				return faultRate
			}
			c.rate = rate
		case key == "burst" && c.burst == 0:
			burst, err := strconv.Atoi(value)
			if err != nil || !isDecimal(value) || burst < 1 || burst > maxBurst {
				return faultBurst
			}
			c.burst = burst
		case key == "prefix" && c.prefix == "":
			if !isPrefix(value) {
				return faultPrefix
			}
			c.prefix = value
		default:
			return faultOption
		}
	}
	if c.burst > 0 && c.rate == 0 {
		return faultBurstOnly
	}
	if c.burst == 0 {
		c.burst = int(math.Ceil(c.rate))
	}
	return ""
}

// isDecimal reports whether text has only digits and points: no sign, exponent, hex or name of a
// number.
func isDecimal(text string) bool {
	return strings.Trim(text, "0123456789.") == ""
}
