package redisstore

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"chronos/scheduler/storetest"
)

// restricted starts a redis-server whose stores are the user of deploy/redis/users.acl, and returns the commands
// that the user may use.
func restricted(t *testing.T) (r *testRedis, allowed []string) {
	t.Helper()
	file, err := os.ReadFile("../deploy/redis/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^user chronos (.*)$`).FindStringSubmatch(string(file))
	if line == nil {
		t.Fatal("users.acl has no user chronos")
	}
	r = startRedis(t)
	set := []any{"acl", "setuser", "chronos", "reset"}
	for rule := range strings.FieldsSeq(line[1]) {
		set = append(set, rule)
		if command, is := strings.CutPrefix(rule, "+"); is {
			allowed = append(allowed, command)
		}
	}
	if err := r.client.Do(t.Context(), set...).Err(); err != nil {
		t.Fatal(err)
	}
	r.url = strings.Replace(r.url, "unix://", "unix://chronos:change-me@", 1)
	return r, allowed
}

// TestContractWithUsersACL: the store needs no other commands and keys than deploy/redis/users.acl allows, and the file allows
// no command that nobody needs.
func TestContractWithUsersACL(t *testing.T) {
	t.Parallel()
	shard, allowed := restricted(t)
	var lanes atomic.Int64
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Fixture {
			return fixture(t, fmt.Sprint("lane", lanes.Add(1)), shard)
		})
	})
	for _, purpose := range []string{"one", "another"} { // the second takes over
		if err := openStore(t, "n", "bridges", shard).Dedicate(t.Context(), purpose); err != nil {
			t.Fatal(err)
		}
	}
	refused, err := shard.client.ACLLog(t.Context(), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range refused {
		t.Errorf("refused: %s %s in %s", entry.Reason, entry.Object, entry.Context)
	}
	used := commandsUsed(t, shard)
	for _, command := range allowed {
		if !used[command] && neededElsewhere[command] == "" && !strings.Contains(scripts(t), "call('"+strings.ToUpper(command)+"'") {
			t.Errorf("%s is allowed, and nobody needs it", command)
		}
	}
}

// neededElsewhere says what needs a command that this test does not use.
var neededElsewhere = map[string]string{"auth": "a Redis that refuses HELLO", "select": "a URL with a database"}

// scripts are the sources of all scripts.
func scripts(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob("../lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// commandsUsed are the commands that the server has carried out.
func commandsUsed(t *testing.T, r *testRedis) map[string]bool {
	t.Helper()
	stats, err := r.client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^cmdstat_([a-z|]+):calls=[1-9]`).FindAllStringSubmatch(stats, -1) {
		used[found[1]] = true
	}
	return used
}
