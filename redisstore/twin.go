package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// CodeSameRedis is the code of a *RefusedError about a shard that would share its Redis
// process with another shard.
const CodeSameRedis = "same-redis"

// sameRedis reports whether two shards are in one Redis process, as far as they have said
// which process they are. Copies there are lost together.
func (s *shard) sameRedis(as *shard) bool {
	a, b := s.identity.Load(), as.identity.Load()
	return a != nil && b != nil && *a == *b && *a != unnamedProcess
}

// database is the number of the shard's database in its Redis.
func (s *shard) database() int {
	if c, single := s.poll.(*redis.Client); single {
		return c.Options().DB
	}
	return 0
}

// twinOf is the first of the shards, other than the shard itself, that is in the same
// Redis process; nil if none is.
func twinOf(sh *shard, all []*shard) *shard {
	for _, other := range all {
		if other.name != sh.name && sh.sameRedis(other) {
			return other
		}
	}
	return nil
}

// vetTwin refuses a shard in a Redis process that has another shard: by force a second
// database of it may join, the same database never.
func (p *proposal) vetTwin(base *Topology, sh *shard, force bool) error {
	for _, at := range p.all {
		other := at.shard
		if _, member := base.member(other.name); !member || other.name == sh.name || !sh.sameRedis(other) {
			continue
		}
		var reason string
		switch {
		case sh.database() == other.database():
			reason = fmt.Sprintf("shards %s and %s would be the same database of one Redis; give another Redis", other.name, sh.name)
		case !force:
			reason = fmt.Sprintf("shards %s and %s would be two databases of one Redis, which are lost together and are worth one copy; give another Redis, or use force", other.name, sh.name)
		default:
			continue
		}
		return &RefusedError{Reason: reason, Code: CodeSameRedis, Topology: *base}
	}
	return nil
}

// warnOfTwins says which shards of the start share a Redis process.
func (s *Store) warnOfTwins() {
	all := s.everyShard()
	for i, sh := range all {
		if twin := twinOf(sh, all[:i]); twin != nil {
			s.log.Warn("two shards of CHRONOS_REDIS are databases of one Redis: what is lost there is lost in both, so that they are worth one copy",
				"shards", twin.name+","+sh.name)
		}
	}
}
