package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// Refusal is what a shard refuses commands with.
type Refusal int

// What a shard can refuse commands with.
const (
	// ReadOnly: it was made a replica. What writes is refused, in scripts too.
	ReadOnly Refusal = iota
	// Loading: it was started and reads its data. Everything is refused.
	Loading
	// OutOfMemory: what may take memory is refused, in scripts unless they have
	// written something before.
	OutOfMemory
	// Busy: a script goes on and on. Everything is refused.
	Busy
	refusals
)

// What Redis says then.
const (
	sayReadOnly = "READONLY You can't write against a read only replica."
	sayLoading  = "LOADING Redis is loading the dataset in memory"
	sayMemory   = "OOM command not allowed when used memory > 'maxmemory'."
	sayBusy     = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
)

// refuseAll has the shard refuse until what it returns is called, once.
func (s *shard) refuseAll(r Refusal) (lift func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[r]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse[r]--
	})
}

// refusal is what a client's command is refused with, "" if it isn't. The shard's
// mutex is held.
func (s *shard) refusal(name string) string {
	switch {
	case s.refuse[Loading] > 0:
		return sayLoading
	case s.refuse[Busy] > 0:
		return sayBusy
	case s.script:
		return "" // by what it does
	}
	return s.mayNot(name)
}

// mayNot is what a command that isn't a script is refused with.
func (s *shard) mayNot(name string) string {
	effect := effects[name]
	switch {
	case effect != 0 && s.refuse[ReadOnly] > 0:
		return sayReadOnly
	case effect == grows && !s.wrote && s.refuse[OutOfMemory] > 0:
		return sayMemory
	}
	return ""
}

// before is called before each command, those of scripts included. The shard's
// mutex is held. It says which process this is, as Redis does and miniredis doesn't.
func (s *shard) before(peer *server.Peer, name string, args ...string) bool {
	if name == "INFO" {
		peer.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%s-%d\r\n", s.name, s.epoch))
		return true
	}
	if name == "ZSCAN" {
		s.scan(peer, args[0])
		return true
	}
	if !s.script || strings.HasPrefix(name, "EVAL") {
		return false
	}
	if s.refused = s.mayNot(name); s.refused != "" {
		peer.WriteError(s.refused)
		return true
	}
	s.wrote = s.wrote || effects[name] != 0
	return false
}

// scan tells of all members at once, as Redis does while they are few. Behind a cursor
// miniredis misses some if others were removed meanwhile; Redis doesn't.
func (s *shard) scan(peer *server.Peer, key string) {
	members, _ := s.mini.SortedSet(key) // no error but that there is none
	peer.WriteLen(2)
	peer.WriteBulk("0")
	peer.WriteLen(2 * len(members))
	for _, member := range slices.Sorted(maps.Keys(members)) {
		peer.WriteBulk(member)
		peer.WriteBulk(strconv.FormatFloat(members[member], 'f', -1, 64))
	}
}

// effect is what a command that writes does to memory.
type effect int

const (
	shrinks effect = iota + 1
	grows
)

var effects = map[string]effect{
	"SET": grows, "SETNX": grows, "GETSET": grows, "APPEND": grows, "INCR": grows, "INCRBY": grows, "MSET": grows,
	"HSET": grows, "HMSET": grows, "HSETNX": grows, "HINCRBY": grows, "ZADD": grows, "ZINCRBY": grows, "SADD": grows,
	"LPUSH": grows, "RPUSH": grows, "RENAME": grows,
	"DEL": shrinks, "UNLINK": shrinks, "HDEL": shrinks, "ZREM": shrinks, "ZREMRANGEBYSCORE": shrinks,
	"ZREMRANGEBYRANK": shrinks, "SREM": shrinks, "LPOP": shrinks, "RPOP": shrinks, "EXPIRE": shrinks, "PEXPIRE": shrinks,
	"PERSIST": shrinks, "FLUSHALL": shrinks, "FLUSHDB": shrinks,
}
