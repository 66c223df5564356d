package cluster

import "time"

// Status is the cluster as this node knows the cluster.
type Status struct {
	View  string // of the placement of timers
	Epoch int64  // of the topology
	// Nodes are the nodes that have told of themselves in the last 10 s, by name.
	Nodes  []Node
	Shards []Shard // in the order of the topology
	Timers Timers
	// PerSecond are the callbacks of all nodes in a second, over the last 10 s.
	PerSecond Rates
	InFlight  int      // callbacks of all nodes under way
	Late      Lateness // for each quantile that of the node that is latest
	Dead      int64    // dead letters
	// Destinations are the busiest destinations of all nodes, the busiest first.
	Destinations []Destination
	Alarms       []Alarm
	Unreached    []string // shards that could not be asked, by name
}

// Rates are callbacks in a second.
type Rates struct{ Fired, Failed float64 }

// Lateness are quantiles of how late pops were called back; zero if there were none.
type Lateness struct{ P50, P99, P999, Max time.Duration }

// Node is what a node tells of itself.
type Node struct {
	ID        string
	Host      string
	Version   string        // of chronos
	Format    int           // the last format of records that the node knows
	Public    string        // the address of the listener for timers
	Admin     string        // the address of the admin listener
	Started   time.Time     // by the node's clock
	Seen      time.Duration // how long ago the node told this
	PerSecond Rates
	InFlight  int
	Late      Lateness
	// Self says that this node answers.
	Self bool
}

// Shard is the condition of a shard. A number of a shard that could not be asked is the last known
// number, and nil if there is none.
type Shard struct {
	Name        string
	URL         string        // without secrets
	State       string        // of the topology: active, joining, leaving or draining
	Lost        bool          // the shard was given up, or is not swept since
	Up          bool          // this node reaches the shard
	Copies      *int64        // timers and tombstones
	Swept       *float64      // the share of the shard that conforms to the last change, from 0 to 1
	SweepLeft   time.Duration // about how long the sweep still takes; 0 if the sweep is over, or nothing is known
	Due         int64         // copies and tombstones that a node should have looked at
	OldestDue   time.Duration // how long the timer that is due longest has been due
	ClockOffset time.Duration // by how much the shard's clock is ahead of this machine's clock
	Persists    string        // aof, rdb, none or unknown
	Evicts      bool          // timers, when the memory is full
	Version     string        // of Redis; "" if unknown
	UsedMemory  int64         // bytes; 0 if unknown
	MaxMemory   int64         // bytes; 0 for no limit
	Letters     int64         // dead letters
	Removable   bool          // the shard is drained and empty, and can be removed
	Problem     string        // what is wrong with the shard; "" for nothing
}

// Timers is about how many timers the cluster has.
type Timers struct {
	About   int64 // timers; an estimate from samples
	Copies  int64 // timers and tombstones on all shards
	Sampled int   // records that the estimate is from
}

// Alarm is what an operator should look at.
type Alarm struct {
	Code  AlarmCode
	Text  string // what is wrong, and what to do
	Shard string // that the alarm is about; "" for none
}

// AlarmCode names a kind of alarm.
type AlarmCode string

// The kinds of alarms.
const (
	ShardDown     AlarmCode = "shard-down"     // this node does not reach a shard
	ShardLost     AlarmCode = "shard-lost"     // a shard was given up
	ShardProblem  AlarmCode = "shard-problem"  // a shard is not as it should be
	Overdue       AlarmCode = "overdue"        // timers are due and nobody calls back
	Evicts        AlarmCode = "evicts"         // a shard may drop timers
	PersistsNot   AlarmCode = "persists-not"   // a shard keeps nothing on disk
	MemoryFull    AlarmCode = "memory-full"    // a shard has used up most of its memory
	ClockOff      AlarmCode = "clock-off"      // a shard's clock is off
	NodeSilent    AlarmCode = "node-silent"    // a node has fallen silent
	VersionsMixed AlarmCode = "versions-mixed" // nodes of several versions
)

// Destination is where callbacks of all nodes go to.
type Destination struct {
	Name      string // scheme://host:port
	PerSecond Rates
	InFlight  int
	Waiting   int           // claims that wait for a slot or a turn
	P99       time.Duration // of how long callbacks take; of the node where they take longest
	Last      string        // the answer last seen, such as "status 503"; "" for none
}

// Moment is a part of the history of this node's view of the cluster.
type Moment struct {
	At        time.Time
	Late      Lateness
	PerSecond Rates
}
