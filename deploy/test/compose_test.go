package deploytest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"chronos/scheduler/verify/testkit"
)

// compose reads compose.yaml as docker compose does, by the schema of the Compose specification.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(repository, "deploy", "compose.yaml")}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// cluster runs services of compose.yaml as processes. Each service has an address of the loopback interface for itself, so the
// services keep their ports.
type cluster struct {
	t         *testing.T
	project   *types.Project
	addresses map[string]string // by the name of the service
	processes map[string]*testkit.Process
	folders   map[string]string // of a service that keeps data
	image     map[string]*image // of a service that is built
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	needContainers(t)
	c := &cluster{
		t: t, project: compose(t), addresses: map[string]string{}, processes: map[string]*testkit.Process{},
		folders: map[string]string{}, image: map[string]*image{},
	}
	// Two clusters, perhaps of two runs of the tests, must not find the services of one another.
	network := fmt.Sprintf("127.%d.%d.", 1+rand.N(254), rand.N(256))
	hosts := "127.0.0.1 localhost\n"
	for n, name := range c.project.ServiceNames() {
		c.addresses[name] = network + strconv.Itoa(10+n)
		c.folders[name] = t.TempDir()
		hosts += c.addresses[name] + " " + name + "\n"
	}
	for name, service := range c.project.Services {
		if service.Build == nil {
			continue
		}
		made := *images[service.Build.Target]
		made.root = c.folders[name]
		if err := copyAll(images[service.Build.Target].root, made.root); err != nil {
			t.Fatal(err)
		}
		if run := filepath.Join(made.root, "run"); exists(run) {
			if err := giveTo(made.user, run); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(made.root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(made.root, "etc", "hosts"), []byte(hosts), 0o644); err != nil {
			t.Fatal(err)
		}
		c.image[name] = &made
	}
	return c
}

var everyAddress = regexp.MustCompile(`(^|://):(\d+)`)

// listens gives the address of a service to what would listen on every address.
func (c *cluster) listens(service, text string) string {
	return everyAddress.ReplaceAllString(text, "${1}"+c.addresses[service]+":$2")
}

// given is the environment of the container of a service.
func (c *cluster) given(name string) (env []string) {
	if i := c.image[name]; i != nil {
		env = slices.Clone(i.env)
	}
	for variable, value := range c.project.Services[name].Environment {
		if value != nil {
			env = append(env, variable+"="+*value)
		}
	}
	return env
}

// environment is the environment of the process of a service.
func (c *cluster) environment(name string) (env []string) {
	for _, entry := range c.given(name) {
		variable, value, _ := strings.Cut(entry, "=")
		env = append(env, variable+"="+c.listens(name, value))
	}
	return env
}

// up starts a service behind the services that it depends on.
func (c *cluster) up(name string) {
	c.t.Helper()
	if c.processes[name] != nil {
		return
	}
	service := c.project.Services[name]
	for other, dependency := range service.DependsOn {
		c.up(other)
		if dependency.Condition == types.ServiceConditionHealthy {
			c.awaitHealth(other)
		}
	}
	switch {
	case service.Build != nil:
		c.startBuilt(name)
	case strings.HasPrefix(service.Image, "redis:"):
		args := append(slices.Clone(service.Command[1:]), "--bind", c.addresses[name], "--dir", c.folders[name])
		c.processes[name] = testkit.Start(c.t, os.Environ(), testkit.Program(c.t, service.Command[0]), args...)
	case name == "kafka":
		c.startKafka()
	case name == "kafka-topics":
		c.createTopics()
	default:
		c.t.Fatalf("the test can't start the service %s", name)
	}
}

func (c *cluster) startBuilt(name string) {
	c.t.Helper()
	service, i := c.project.Services[name], c.image[name]
	args := slices.Clone(i.entrypoint)
	if len(service.Entrypoint) > 0 {
		args = slices.Clone(service.Entrypoint)
	}
	for _, arg := range service.Command {
		args = append(args, c.listens(name, arg))
	}
	program, all := i.command(args...)
	c.processes[name] = testkit.Start(c.t, c.environment(name), program, all...)
}

// awaitHealth waits for the first success of the healthcheck of a service.
func (c *cluster) awaitHealth(name string) {
	c.t.Helper()
	if name == "kafka" {
		return // startKafka has waited
	}
	testkit.Eventually(c.t, testkit.Soon, name+" is healthy", func() bool { return c.healthy(name) == nil })
}

// healthy runs the healthcheck of a service, with the address of the service in place of 127.0.0.1.
func (c *cluster) healthy(name string) error {
	var args []string
	if check := c.project.Services[name].HealthCheck; check != nil && len(check.Test) > 1 && check.Test[0] == "CMD" {
		for _, arg := range check.Test[1:] {
			args = append(args, strings.Replace(arg, "127.0.0.1", c.addresses[name], 1))
		}
	}
	if i := c.image[name]; i != nil {
		if len(args) == 0 {
			args = i.health
		}
		out, status, err := i.run(c.environment(name), args...)
		if err == nil && status != 0 {
			err = fmt.Errorf("status %d: %s", status, out)
		}
		return err
	}
	args = slices.Insert(args, 1, "-h", c.addresses[name])
	return exec.CommandContext(c.t.Context(), testkit.Program(c.t, args[0]), args[1:]...).Run()
}

// exec is docker compose exec: a command in the container of a service. In a container the usual listeners are on 127.0.0.1.
func (c *cluster) exec(name string, args ...string) (out string, status int) {
	c.t.Helper()
	at := "http://" + c.addresses[name]
	env := append(c.environment(name), "CHRONOS_URL="+at+":7253", "CHRONOS_ADMIN_URL="+at+":7254")
	out, status, err := c.image[name].run(env, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out, status
}

// published is the address of the service behind a published port of 127.0.0.1.
func (c *cluster) published(port string) string {
	c.t.Helper()
	for name, service := range c.project.Services {
		for _, p := range service.Ports {
			if p.Published == port {
				return net.JoinHostPort(c.addresses[name], strconv.Itoa(int(p.Target)))
			}
		}
	}
	c.t.Fatalf("no service has the port %s", port)
	return ""
}

// create creates a timer for a second ahead, and returns the text that the callback brings.
func (c *cluster) create(port string) string {
	c.t.Helper()
	text := fmt.Sprintf("text-%d", rand.Uint64())
	body := `{"timing": {"interval": 1}, "callback": {"http": {"uri": "http://receiver:9000/hello", "opaque": "` + text + `"}}}`
	answer, err := testkit.Ask(nil, "POST", "http://"+c.published(port)+"/timers", body)
	if err != nil || answer.Status != 200 {
		c.t.Fatalf("create a timer: %d, %v, %s", answer.Status, err, answer.Body)
	}
	return text
}

func (c *cluster) awaitCallback(text string) {
	c.t.Helper()
	testkit.Eventually(c.t, testkit.Soon, "the receiver prints "+text, func() bool { return c.processes["receiver"].Log.Count(text) > 0 })
}

// TestPortsAreOfThisMachine: whoever tries the cluster opens nothing to a network.
func TestPortsAreOfThisMachine(t *testing.T) {
	t.Parallel()
	ports := map[string]string{}
	for name, service := range compose(t).Services {
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s at %q", name, port.Published, port.HostIP)
			}
			if other := ports[port.Published]; other != "" {
				t.Errorf("%s and %s publish port %s", name, other, port.Published)
			}
			ports[port.Published] = name
		}
	}
	if len(ports) < 6 {
		t.Errorf("published ports are %v; want more", ports)
	}
}

// TestContainersMayWriteTheToken: the folder of the token belongs to the user of the image, though all else is read-only.
func TestContainersMayWriteTheToken(t *testing.T) {
	t.Parallel()
	project := compose(t)
	for _, name := range []string{"node-1", "node-2", "bridge"} {
		service, i := project.Services[name], images[""]
		at := slices.IndexFunc(i.env, func(v string) bool { return strings.HasPrefix(v, "XDG_RUNTIME_DIR=") })
		user, group, _ := strings.Cut(i.user, ":")
		folder := path.Join(strings.TrimPrefix(i.env[at], "XDG_RUNTIME_DIR="), "chronos")
		want := fmt.Sprintf("%s:mode=0700,uid=%s,gid=%s", folder, user, group)
		if !service.ReadOnly || !slices.Equal(service.Tmpfs, []string{want}) {
			t.Errorf("%s: read-only %v, tmpfs %q; want %q", name, service.ReadOnly, service.Tmpfs, want)
		}
		info, err := os.Stat(filepath.Join(i.root, folder))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the image has no folder %s of its user alone: %v, %v", folder, info, err)
		}
	}
}

// TestComposeLosesARedis follows docs/deploying.md: a timer, a Redis that stops, a timer meanwhile, and the Redis again.
func TestComposeLosesARedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, name := range []string{"receiver", "node-1", "node-2"} {
		c.up(name)
	}
	c.awaitHealth("node-1")
	c.awaitHealth("node-2")
	c.awaitCallback(c.create("7253"))
	c.awaitCallback(c.create("7263"))
	c.checked("node-1", "node-2")
	c.awaitStatus("well", 0, "no alarms")
	c.scraped("node-1:7254", "node-2:7254")

	redis := c.processes["redis-b"]
	if err := redis.Stop(testkit.Soon); err != nil {
		t.Fatalf("redis-b ends by %v", err)
	}
	if c.healthy("redis-b") == nil {
		t.Error("redis-b is healthy after its end")
	}
	c.awaitStatus("of the Redis that is down", 1, "shard b")
	if err := c.healthy("node-1"); err != nil {
		t.Errorf("two Redis instances of three are left, and node-1 is not ready: %v", err)
	}
	for range 5 { // some of the timers have a copy on the Redis that is down
		c.awaitCallback(c.create("7253"))
	}
	if out, status := c.exec("node-1", "chronos", "timer", "list"); status != 0 && status != 3 {
		t.Errorf("chronos timer list, with the token of the node: status %d\n%s", status, out)
	}

	delete(c.processes, "redis-b")
	c.up("redis-b")
	c.awaitHealth("redis-b")
	c.awaitStatus("well again", 0, "no alarms")
	c.awaitCallback(c.create("7253"))
	if out, status := c.exec("node-1", "chronos", "timer", "list"); status != 0 {
		t.Errorf("chronos timer list, with the token of the node: status %d\n%s", status, out)
	}
	for _, name := range []string{"node-1", "node-2"} {
		if err := c.processes[name].Stop(time.Duration(*c.project.Services[name].StopGracePeriod)); err != nil {
			t.Errorf("%s ends by %v", name, err)
		}
	}
}

// checked has nodes look at the environment of their containers, with listeners that other machines reach.
func (c *cluster) checked(nodes ...string) {
	c.t.Helper()
	for _, name := range nodes {
		if out, status, err := c.image[name].run(c.given(name), "chronos", "config", "check"); err != nil || status != 0 {
			c.t.Errorf("chronos config check of %s: %d, %v\n%s", name, status, err, out)
		}
	}
}

// awaitStatus waits until chronos status has an exit status, and prints a text.
func (c *cluster) awaitStatus(what string, want int, part string) {
	c.t.Helper()
	var out string
	var status int
	if !testkit.Await(c.t, 2*testkit.Soon, "chronos status tells that the cluster is "+what, func() bool {
		out, status = c.exec("node-1", "chronos", "status")
		return status == want && strings.Contains(out, part)
	}) {
		c.t.Fatalf("chronos status: %d\n%s", status, out)
	}
}
