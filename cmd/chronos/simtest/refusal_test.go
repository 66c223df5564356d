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

// Refusal is a reason for which a shard refuses commands.
type Refusal int

// The refusals of a shard.
const (
	// ReadOnly: the shard was made a replica. Writing commands are refused, in scripts too.
	ReadOnly Refusal = iota
	// Loading: the shard was started and reads its data. Everything is refused.
	Loading
	// OutOfMemory: commands that may take memory are refused, in scripts unless the script has written
	// something before.
	OutOfMemory
	// Busy: a script goes on and on. Everything is refused.
	Busy
	refusals
)

// The errors of Redis.
const (
	sayReadOnly = "READONLY You can't write against a read only replica."
	sayLoading  = "LOADING Redis is loading the dataset in memory"
	sayMemory   = "OOM command not allowed when used memory > 'maxmemory'."
	sayBusy     = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
)

// refuseAll has the shard refuse commands until the caller calls lift, once.
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

// refusal is the error that refuses a client's command, "" for no refusal. The shard's mutex is held.
func (s *shard) refusal(name string) string {
	switch {
	case s.refuse[Loading] > 0:
		return sayLoading
	case s.refuse[Busy] > 0:
		return sayBusy
	case s.script:
		return "" // the script's commands decide
	}
	return s.mayNot(name)
}

// mayNot is the error that refuses a command other than a script.
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

// before is called before each command, commands of scripts included. The shard's mutex is held. before
// answers INFO with the ID of the process, as Redis does and miniredis doesn't.
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

// scan returns all members at once, as Redis does for small sets. Behind a cursor miniredis misses some
// members if members were removed meanwhile; Redis doesn't.
func (s *shard) scan(peer *server.Peer, key string) {
	members, _ := s.mini.SortedSet(key) // the only error is a missing key
	peer.WriteLen(2)
	peer.WriteBulk("0")
	peer.WriteLen(2 * len(members))
	for _, member := range slices.Sorted(maps.Keys(members)) {
		peer.WriteBulk(member)
		peer.WriteBulk(strconv.FormatFloat(members[member], 'f', -1, 64))
	}
}

// effect is the effect of a writing command on memory.
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
