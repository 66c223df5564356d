package shard

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Bounds of a command for several partitions, since a shard does nothing else during a command.
const (
	CommandItems = 128
	CommandBytes = 256 << 10
)

// command is a script call for one partition, or for several partitions (lua/partitions.lua). A call of the command costs
// a shard about as much as some timers do, so calls about few timers go together. The nodes of a Cluster refuse keys of
// several partitions.
type command struct {
	script

	calls []*Call
}

// commands puts calls together. Calls of one script stay in order.
func (s *Shard) commands(client redis.UniversalClient, calls []*Call) []command {
	commands := make([]command, 0, len(calls))
	several := s.takesPartitions(client)
	items, bytes := 0, 0
	for _, c := range calls {
		together, ok := s.scripts.together[c.Script]
		ok = ok && c.Items > 0 && several
		if last := len(commands) - 1; ok && last >= 0 && commands[last].calls[0].Script == c.Script && items > 0 &&
			items+c.Items <= CommandItems && bytes+c.Bytes <= CommandBytes {
			commands[last].script, commands[last].calls = together, append(commands[last].calls, c)
			items, bytes = items+c.Items, bytes+c.Bytes
			continue
		}
		commands = append(commands, command{script: s.scripts.alone[c.Script], calls: []*Call{c}})
		items, bytes = c.Items, c.Bytes
	}
	return commands
}

// takesPartitions tells whether a command may have keys of several partitions.
func (s *Shard) takesPartitions(client redis.UniversalClient) bool {
	_, cluster := client.(*redis.ClusterClient)
	return !cluster && !s.apart.Load()
}

// twin is the source of the command's script for several partitions, if the command has one, and the other way round. A
// script without a twin is its own.
func (s *Shard) twin(c command) string {
	name := c.calls[0].Script
	if together, is := s.scripts.together[name]; is && len(c.calls) == 1 {
		return together.source
	}
	return s.scripts.alone[name].source
}

func (c *command) arguments() (keys []string, args []any) {
	if len(c.calls) == 1 {
		return c.calls[0].Keys, c.calls[0].Args
	}
	n := 1
	for _, call := range c.calls {
		n += 1 + len(call.Args)
	}
	keys, args = make([]string, 0, len(c.calls)*len(c.calls[0].Keys)), make([]any, 0, n)
	args = append(args, len(c.calls[0].Keys))
	for _, call := range c.calls {
		keys, args = append(keys, call.Keys...), append(append(args, len(call.Args)), call.Args...)
	}
	return keys, args
}

// replies are the answers to the calls, or an error of the whole command. An answer is a list, or the text of an error.
func (c *command) replies(sent *redis.Cmd) ([]any, error) {
	reply, err := sent.Slice()
	switch {
	case err != nil:
		return make([]any, len(c.calls)), err //nolint:wrapcheck // the reader of each call does
	case len(c.calls) == 1:
		return []any{reply}, nil
	case len(reply) != len(c.calls):
		return make([]any, len(c.calls)), fmt.Errorf("%w: %d answers to %d calls", ErrReply, len(reply), len(c.calls))
	}
	return reply, nil
}
