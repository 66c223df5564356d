package deploytest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chronos/scheduler/verify/testkit"
)

// TestRedisConf starts a redis-server with redis.conf and users.acl, and has chronos look for faults as the user of users.acl.
// Folder, port and path of users.acl are those of the test.
//
// The path is replaced in redis.conf, since an argument would stand in for a missing line.
func TestRedisConf(t *testing.T) {
	t.Parallel()
	needContainers(t)
	users := filepath.Join(t.TempDir(), "users.acl")
	place := func(name, at string) {
		text, err := os.ReadFile(filepath.Join(repository, "deploy", "redis", name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("/etc/redis/users.acl"), []byte(users), 1)
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place("users.acl", users)
	conf := filepath.Join(t.TempDir(), "redis.conf")
	place("redis.conf", conf)
	dir, port := t.TempDir(), testkit.FreePort(t)
	server := testkit.Start(t, os.Environ(), testkit.Program(t, "redis-server"), conf, "--port", port, "--dir", dir)
	check := func(user string) (string, int) {
		out, status, err := images[""].run([]string{"CHRONOS_REDIS=a=redis://" + user + "127.0.0.1:" + port + "/0"}, programs+"/chronos", "config", "check")
		if err != nil {
			t.Fatal(err)
		}
		return out, status
	}
	var out string
	if !testkit.Await(t, testkit.Soon, "chronos config check finds nothing wrong", func() bool {
		var status int
		out, status = check("chronos:change-me@")
		return status == 0
	}) {
		t.Fatalf("%s\n%s", out, server.Log)
	}
	if !strings.Contains(out, "aof") {
		t.Errorf("chronos config check does not tell of the append-only file:\n%s", out)
	}
	for _, user := range []string{"", "chronos:other@", "default:change-me@"} {
		if out, status := check(user); status != 1 {
			t.Errorf("the Redis lets %q in: %s", user, out)
		}
	}
	if names, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.aof")); err != nil || len(names) == 0 {
		t.Errorf("the Redis keeps no append-only file: %v, %v", names, err)
	}
}
