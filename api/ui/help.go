package ui

import "chronos/scheduler/cluster"

// advice is what an operator does about a kind of alarm.
type advice struct {
	Code    cluster.AlarmCode
	Title   string
	Meaning string
	Steps   []string
}

// runbook is the page of advice, a section for each kind of alarm.
func runbook() []advice {
	return []advice{
		{cluster.ShardDown, "A shard does not answer", "This node does not reach the Redis of a shard. Timers with another copy fire from there, about a second late.", []string{
			"Look whether the Redis runs, and whether this node's machine reaches the address.",
			"Start the Redis again with its data. The shard joins in by itself, and a sweep brings the shard up to date.",
			"If the data is lost, remove the shard with force on the cluster page, and add another shard.",
		}},
		{cluster.ShardLost, "A shard was given up", "The cluster has gone on without the shard. Copies that were only there are lost.", []string{"Remove the shard on the cluster page.", "Add another shard, so that each timer has as many copies as before."}},
		{cluster.ShardProblem, "A shard is not as it should be", "The text of the alarm says what is wrong with the shard.", []string{"Do what the text of the alarm says.", "Look at the log of the nodes for the name of the shard."}},
		{cluster.Overdue, "Timers are overdue", "Timers are due, and no node has called them back.", []string{"Look on the cluster page whether nodes are missing, and start them.", "Look on the destinations page whether a destination is paused, limited or slow.", "If all nodes are busy, add nodes."}},
		{cluster.Evicts, "A shard may drop timers", "The Redis evicts keys when its memory is full, and evicted timers are lost.", []string{"Set maxmemory-policy to noeviction."}},
		{cluster.PersistsNot, "A shard keeps nothing on disk", "A restart of the Redis loses the copies of the shard.", []string{"Set appendonly to yes."}},
		{cluster.MemoryFull, "A shard's memory is nearly full", "A full Redis refuses new timers.", []string{"Give the Redis more memory, or raise maxmemory.", "Add a shard: the shard takes its share of the timers."}},
		{cluster.ClockOff, "A shard's clock is off", "Timers fire by the clocks of the shards. A wrong clock makes the pops of the shard late.", []string{"Set the clock of the machine by NTP."}},
		{cluster.VersionsMixed, "Nodes of several versions", "An upgrade is under way, or was left unfinished.", []string{"Finish the upgrade: bring all nodes to the same version."}},
		{cluster.NodeSilent, "A node has fallen silent", "A node has told nothing of itself for some seconds. Other nodes take over its timers.", []string{"Look whether the node runs, and start the node again.", "If the node was stopped on purpose, the alarm goes by itself."}},
	}
}

func (u *UI) help(*visit) (answer, error) {
	return answer{page: "help", title: "What to do about alarms", data: runbook()}, nil
}
