package topology

import (
	"fmt"
)

// CodeSameRedis is the code of a *RefusedError about a shard that would share its Redis
// process with another shard.
const CodeSameRedis = "same-redis"

// sameRedis reports whether two shards are in one Redis process, as far as the processes are known. Copies on the two
// shards are lost together.
func sameRedis(a, b Shard) bool { return a.Process() != "" && a.Process() == b.Process() }

// TwinOf is the first of the shards, apart from the shard itself, in the same Redis process; nil for no twin.
func TwinOf(sh Shard, all []Shard) Shard {
	for _, other := range all {
		if other.Name() != sh.Name() && sameRedis(sh, other) {
			return other
		}
	}
	return nil
}

// vetTwin refuses a shard in a Redis process that has another shard. By force a second database of the process may
// join, the same database never.
func (p *proposal) vetTwin(base *Topology, sh Shard, force bool) error {
	var members []Shard
	for _, at := range p.all {
		if _, member := base.member(at.shard.Name()); member {
			members = append(members, at.shard)
		}
	}
	return base.RefuseTwin(sh, members, force)
}

// RefuseTwin is the error that a shard is in the Redis process of another shard, nil if the shard is not. By force the shard
// may be a second database of the process.
func (l *Topology) RefuseTwin(sh Shard, all []Shard, force bool) error {
	for _, other := range all {
		if other.Name() == sh.Name() || !sameRedis(sh, other) {
			continue
		}
		var reason string
		switch {
		case sh.Database() == other.Database():
			reason = fmt.Sprintf("shards %s and %s would be the same database of one Redis; give another Redis", other.Name(), sh.Name())
		case !force:
			reason = fmt.Sprintf("shards %s and %s would be two databases of one Redis, which are lost together and are worth one copy; give another Redis, or use force", other.Name(), sh.Name())
		default:
			continue
		}
		return &RefusedError{Reason: reason, Code: CodeSameRedis, Topology: *l}
	}
	return nil
}

// WarnOfTwins logs which shards of the start share a Redis process.
func (c *Cluster) WarnOfTwins() {
	all := c.Connected()
	for i, sh := range all {
		if twin := TwinOf(sh, all[:i]); twin != nil {
			c.o.Log.Warn("two shards of CHRONOS_REDIS are databases of one Redis: what is lost there is lost in both, so that they are worth one copy",
				"shards", twin.Name()+","+sh.Name())
		}
	}
}
