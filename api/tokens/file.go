package tokens

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"chronos/scheduler/operatorfile"
)

const kind operatorfile.Kind = "tokens file"

// Bounds of a file.
const (
	maxTokens = 1000
	maxBurst  = 1_000_000
)

// Faults of a line. The texts hold no words of the file: a token may stand in the place of a name.
const (
	faultShape     = "want a name, roles and a hash: orders write sha256:<64 hex digits> [rate=<requests per second>] [burst=<requests>] [prefix=<begin of ids>]"
	faultName      = "the name must be 1 to 32 of the characters A-Z a-z 0-9 . _ - and not begin with chr_"
	faultRoles     = "roles are read, write, list and admin, several separated by commas"
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

var errNoTokens = errors.New("the tokens file has no tokens; `chronos token <name> <roles>` makes one and its line")

// Load reads the tokens file at path. The error lists all faults, a line for every fault, and never
// shows a token or hash. Load blocks on the file system.
func Load(path string) (*Set, error) {
	content, err := kind.Read(path)
	if err != nil {
		return nil, err
	}
	return parseFile(content)
}

// parseFile is Parse with warnings about the file's mode.
func parseFile(content operatorfile.Content) (*Set, error) {
	s, err := Parse(content.Text)
	if err == nil && content.Mode.Perm()&0o027 != 0 {
		s.list.warnings = append(s.list.warnings, fmt.Sprintf(
			"others may read or change the tokens file (its mode is %04o); set it to 0640 or less", content.Mode.Perm()))
	}
	return s, err
}

// Parse reads the text of a tokens file. The error is like Load's error.
func Parse(text []byte) (*Set, error) {
	p := parser{first: map[string]claim{}, hashes: map[digest]int{}, faults: kind.Faults()}
	for n, words := range operatorfile.Lines(text) {
		p.line(n, words)
	}
	if err := p.faults.Err(); err != nil {
		return nil, err
	}
	if len(p.claims) == 0 {
		return nil, errNoTokens
	}
	return newSet(p.claims), nil
}

// parser collects the claims and the faults of a file's lines.
type parser struct {
	claims []claim
	first  map[string]claim // by name
	hashes map[digest]int   // to the number of the hash's line
	faults operatorfile.Faults
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

// line takes the words of line n; there is at least one word.
func (p *parser) line(n int, words []string) {
	if slices.ContainsFunc(words, func(w string) bool { return isToken([]byte(strings.TrimPrefix(w, prefixOption))) }) {
		p.faults.Add(n, faultToken)
		return
	}
	if len(words) < 3 {
		p.faults.Add(n, faultShape)
		return
	}
	c, faults := parseClaim(words)
	c.line = n
	for _, text := range faults {
		p.faults.Add(n, text)
	}
	if len(faults) > 0 {
		return
	}
	if other, again := p.hashes[c.digest]; again {
		p.faults.Add(n, faultTwice+" "+strconv.Itoa(other))
		return
	}
	p.hashes[c.digest] = n
	other, again := p.first[c.name]
	switch {
	case !again:
		p.first[c.name] = c
	case c.role != other.role || c.rate != other.rate || c.burst != other.burst || c.prefix != other.prefix:
		p.faults.Add(n, faultUnlike+" "+strconv.Itoa(other.line))
	}
	if len(p.claims) == maxTokens {
		p.faults.Add(n, faultMany)
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
			if c.rate = operatorfile.Rate(value); c.rate == 0 {
				return faultRate
			}
		case key == "burst" && c.burst == 0:
			if c.burst = operatorfile.Whole(value, maxBurst); c.burst == 0 {
				return faultBurst
			}
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
