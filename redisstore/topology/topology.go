package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"chronos/redisstore/endpoint"
)

// Topology is the nodes' agreement: which shards exist, and on which shards timers belong. Every shard keeps the
// topology. A change is announced before the change counts (Next), so that no two nodes are more than one step apart.
// The former lists are remembered until the sweep has passed (Former). A Topology never changes once made.
type Topology struct {
	Epoch  int64    `json:"epoch"`
	Change string   `json:"change"` // id of the change that made the topology
	Shards []Member `json:"shards"` // in list order
	// Cluster is the Change of the first topology from which this topology descends; "" in a topology from before
	// such ids.
	Cluster string `json:"cluster,omitempty"`
	// Active are the names of the shards that take timers, in list order. Next are the shards that soon will; nil if
	// no change is announced.
	Active []string `json:"active"`
	Next   []string `json:"next,omitempty"`
	// Former are the lists that were Active before, latest first.
	Former [][]string `json:"former,omitempty"`
	// Moved is the epoch in which Active changed last, or since which everything is to be swept again.
	Moved int64 `json:"moved,omitempty"`
	// Lost are the shards that were given up after a long outage. No timer belongs on a lost shard any more, and
	// nobody waits for a lost shard. A lost shard that is back fires nothing until the shard is swept.
	Lost map[string]Loss `json:"lost,omitempty"`
	// Site is the site of the shards; "" without sites. Sites are the other sites.
	Site  string `json:"site,omitempty"`
	Sites []Site `json:"sites,omitempty"`
	// Voiceless are the shards that an operator has given up: no change needs a voiceless shard.
	Voiceless []string `json:"voiceless,omitempty"`
}

// Member is a shard of a topology.
type Member struct {
	Name string `json:"name"`
	URL  string `json:"url"` // may hold a password: never log it
}

// State is what a shard is for.
type State string

// The states of a shard.
const (
	Active   State = "active"   // takes timers
	Joining  State = "joining"  // soon takes timers
	Leaving  State = "leaving"  // soon takes no timers
	Draining State = "draining" // takes no timers, and gives its timers away
)

// maxFormer is how many changes may wait for the sweep.
const maxFormer = 5

// StateOf is what the named shard is for.
func (l *Topology) StateOf(name string) State {
	active := slices.Contains(l.Active, name)
	soon := active
	if l.Next != nil {
		soon = slices.Contains(l.Next, name)
	}
	switch {
	case active && soon:
		return Active
	case active:
		return Leaving
	case soon:
		return Joining
	}
	return Draining
}

// EpochOf is the epoch for which a shard is to be swept.
func (l *Topology) EpochOf(name string) int64 { return max(l.Moved, l.Lost[name].Epoch) }

// View names the shards that take timers, and the shards that soon will, in list order. Nodes that place timers alike
// have the same View.
func (l *Topology) View() string {
	return fmt.Sprintf("%016x", xxhash.Sum64String(strings.Join(l.Active, ",")+"|"+strings.Join(l.Next, ",")))
}

// RefusedError says why a change of the topology can't be made, and what to do.
type RefusedError struct {
	Reason   string
	Code     string   // "" if the refusal needs no code
	Topology Topology // the topology as the topology stands
	cause    error    // nil if no error caused the refusal
}

func (e *RefusedError) Error() string { return e.Reason }

func (e *RefusedError) Unwrap() error { return e.cause }

// Refuse is the error that a change of the topology can't be made.
func (l *Topology) Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Topology: *l}
}

// firstTopology is the topology of the shards that a node was started with.
func firstTopology(o *Options) Topology {
	l := Topology{Shards: o.Given, Site: o.Site, Sites: o.Others}
	l.Active = l.names()
	return l
}

func (l *Topology) names() []string {
	names := make([]string, len(l.Shards))
	for i, m := range l.Shards {
		names[i] = m.Name
	}
	return names
}

func (l *Topology) member(name string) (Member, bool) {
	i := slices.IndexFunc(l.Shards, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, false
	}
	return l.Shards[i], true
}

// lists are the lists of which a majority must hold the topology: a node that asks a majority of any list finds the
// topology.
func (l *Topology) lists(voiceless ...string) [][]string {
	lists := [][]string{l.names(), l.Active}
	if l.Next != nil {
		lists = append(lists, l.Next)
	}
	if len(l.Former) > 0 {
		lists = append(lists, l.Former[0])
	}
	for i, names := range lists {
		lists[i] = l.voters(names, voiceless...)
	}
	return slices.DeleteFunc(lists, func(names []string) bool { return len(names) == 0 })
}

// voters are the named shards that have a voice, without the further voiceless shards.
func (l *Topology) voters(names []string, voiceless ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains(l.Voiceless, name) || slices.Contains(voiceless, name)
	})
}

// inOrder are the names for which in reports true, in list order.
func (l *Topology) inOrder(in func(name string) bool) []string {
	return slices.DeleteFunc(l.names(), func(name string) bool { return !in(name) })
}

// free is an error if another change has to come first.
func (l *Topology) free() error {
	switch {
	case l.Next != nil:
		return l.Refuse("the change to epoch %d is being announced to all nodes; try again in some seconds", l.Epoch)
	case len(l.Former) >= maxFormer:
		return l.Refuse("%d changes wait for the sweep; try again when it has passed", len(l.Former))
	}
	return nil
}

// add announces a new shard, or a drained shard again.
func (l *Topology) add(m Member) (Topology, error) {
	if err := l.free(); err != nil {
		return *l, err
	}
	if !endpoint.ValidName(m.Name) {
		return *l, l.Refuse("a name is 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit")
	}
	if _, err := endpoint.NewConnector(m.URL); m.URL != "" && err != nil {
		return *l, l.Refuse("the URL of shard %s: %v", m.Name, err)
	}
	known, is := l.member(m.Name)
	loss, lost := l.Lost[m.Name]
	switch {
	case lost && loss.Rejoins:
		return *l, l.Refuse("shard %s was away for too long; it takes timers again by itself once it is back and swept", m.Name)
	case is && l.StateOf(m.Name) != Draining:
		return *l, l.Refuse("there is a shard %s; choose another name: placement follows it", m.Name)
	case is && m.URL != "" && m.URL != known.URL:
		return *l, l.Refuse("shard %s has another URL; give the new one another name", m.Name)
	case !is && m.URL == "":
		return *l, l.Refuse("there is no shard %s yet; give its URL", m.Name)
	case !is && slices.ContainsFunc(l.Shards, func(o Member) bool { return endpoint.SamePlace(o.URL, m.URL) }):
		return *l, l.Refuse("another shard has this URL already")
	}
	next := *l
	if lost {
		next.Lost = l.lossOf(m.Name, Loss{Epoch: loss.Epoch, Rejoins: true})
		return next, nil
	}
	if !is {
		next.Shards = append(slices.Clone(l.Shards), m)
	}
	next.Voiceless = without(l.Voiceless, m.Name)
	next.Next = next.inOrder(func(name string) bool { return name == m.Name || slices.Contains(l.Active, name) })
	return next, nil
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// drain announces that a shard will take no more timers. With force the shard also loses its voice, now and later,
// and drops out of an announced change.
func (l *Topology) drain(name string, force bool) (Topology, error) {
	next := *l
	_, is := l.member(name)
	loss := l.Lost[name]
	if loss.Rejoins {
		next.Lost = l.lossOf(name, Loss{Epoch: loss.Epoch})
	}
	if force && is && !slices.Contains(l.Voiceless, name) {
		next.Voiceless = append(slices.Clone(l.Voiceless), name)
		if len(next.voters(next.names())) == 0 {
			return *l, l.Refuse("the other shards are given up already, and shard %s is the last that is not; add another first", name)
		}
		if state := l.StateOf(name); state == Leaving || state == Draining {
			return next, nil // the shard's end is known already, and the shard's voice is not needed any more
		}
		if l.Next != nil {
			var err error
			next.Next, err = l.announcedWithout(name)
			return next, err
		}
	}
	if err := l.free(); err != nil {
		return *l, err
	}
	switch {
	case !is:
		return *l, l.Refuse("there is no shard %s; the shards are %s", name, strings.Join(l.names(), ", "))
	case loss.Rejoins:
		return next, nil // the shard takes no timers already, and won't when it is back
	case l.StateOf(name) == Draining:
		return *l, l.Refuse("shard %s is being drained already", name)
	case len(l.Active) == 1:
		return *l, l.Refuse("shard %s is the only one that takes timers; add another first", name)
	}
	next.Next = next.inOrder(func(n string) bool { return n != name && slices.Contains(l.Active, n) })
	return next, nil
}

// announcedWithout is Next without a shard that is gone for good. If Next had no other shard, the remaining active
// shards stay; if only the lost shard was to join, nothing is announced any more.
func (l *Topology) announcedWithout(name string) ([]string, error) {
	left := without(l.Next, name)
	if len(left) == 0 {
		left = l.voters(without(l.Active, name))
	}
	if slices.Equal(left, l.Active) {
		return nil, nil
	}
	if !slices.ContainsFunc(left, func(n string) bool { _, lost := l.Lost[n]; return !lost }) {
		return l.Next, l.Refuse("shard %s is the only one that takes timers and is not given up; add another first", name)
	}
	return left, nil
}

// remove forgets a shard that is drained.
func (l *Topology) remove(name string) (Topology, error) {
	if err := l.free(); err != nil {
		return *l, err
	}
	switch _, is := l.member(name); {
	case !is:
		return *l, l.Refuse("there is no shard %s; the shards are %s", name, strings.Join(l.names(), ", "))
	case l.StateOf(name) != Draining:
		return *l, l.Refuse("shard %s takes timers; drain it first", name)
	}
	next := *l
	next.Shards = slices.DeleteFunc(slices.Clone(l.Shards), func(m Member) bool { return m.Name == name })
	next.Former = slices.Clone(l.Former)
	for i, names := range next.Former {
		next.Former[i] = without(names, name)
	}
	next.Voiceless, next.Lost = without(l.Voiceless, name), maps.Clone(l.Lost)
	delete(next.Lost, name)
	return next, nil
}

// enact has the announced list count.
func (l *Topology) enact() Topology {
	next := *l
	next.Former = append([][]string{l.Active}, l.Former...)
	next.Active, next.Next, next.Moved = l.Next, nil, l.Epoch+1
	return next
}

// enactAnnounced has the announced list count. Every node makes the same step.
func (l *Topology) enactAnnounced() (Topology, error) {
	if l.Next == nil {
		return *l, l.Refuse("nothing is announced")
	}
	next := l.enact()
	next.Change = l.Change + "+"
	return next, nil
}

// swept forgets the former lists.
func (l *Topology) swept() Topology {
	next := *l
	next.Former = nil
	return next
}

var errTopology = errors.New("malformed topology")

// encode is the topology as the shards keep it: "epoch change {json}".
func (l *Topology) encode() (string, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode topology: %w", err)
	}
	return strconv.FormatInt(l.Epoch, 10) + " " + l.Change + " " + string(b), nil
}

// decodeTopology reads text that encode wrote, and refuses a topology that no node can work with.
func decodeTopology(text string) (*Topology, error) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 {
		return nil, errTopology
	}
	var l Topology
	if err := json.Unmarshal([]byte(parts[2]), &l); err != nil {
		return nil, fmt.Errorf("%w: %w", errTopology, err)
	}
	if strconv.FormatInt(l.Epoch, 10) != parts[0] || l.Change != parts[1] || l.Epoch < 1 {
		return nil, fmt.Errorf("%w: it isn't the one that it says", errTopology)
	}
	seen := map[string]bool{}
	for _, m := range l.Shards {
		if _, err := endpoint.NewConnector(m.URL); err != nil || seen[m.Name] || !endpoint.ValidName(m.Name) {
			return nil, fmt.Errorf("%w: shard %q", errTopology, m.Name)
		}
		seen[m.Name] = true
	}
	for _, list := range append([][]string{l.Active, l.Next, l.Voiceless, slices.Collect(maps.Keys(l.Lost))}, l.Former...) {
		for _, name := range list {
			if !seen[name] {
				return nil, fmt.Errorf("%w: no shard is named %q", errTopology, name)
			}
		}
	}
	if len(l.Active) == 0 {
		return nil, fmt.Errorf("%w: no shard takes timers", errTopology)
	}
	return &l, l.checkSites()
}

// same reports whether two topologies are the same step.
func (l *Topology) same(o *Topology) bool { return l.Epoch == o.Epoch && l.Change == o.Change }
