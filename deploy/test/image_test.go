package deploytest

import (
	"debug/elf"
	"fmt"
	"go/version"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"chronos/scheduler/verify/testkit"
)

// Where the repository is, and the programs of an image.
const (
	repository = "../.."
	programs   = "/usr/local/bin"
)

// images are those of deploy/Dockerfile, by the name of the stage. The image of a node has the name "".
var images map[string]*image

func TestMain(m *testing.M) { os.Exit(testImages(m)) }

func testImages(m *testing.M) int {
	if runtime.GOOS != "linux" {
		fmt.Fprintln(os.Stderr, "SKIPPED: images run on Linux alone")
		return 0
	}
	temporary, err := os.MkdirTemp("", "chronos-images-")
	if err == nil {
		defer os.RemoveAll(temporary) //nolint:errcheck // a temporary folder
		images, err = buildImages(repository, temporary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the images of deploy/Dockerfile:", err)
		return 1
	}
	return m.Run()
}

// TestImagesRunAnywhere: images without files of a system need programs that load nothing, and a node needs authorities.
func TestImagesRunAnywhere(t *testing.T) {
	t.Parallel()
	have := map[string][]string{"": {"chronos", "chronos-bridge"}, "receiver": {"receiver"}}
	for stage, want := range have {
		i := images[stage]
		if i.fromRegistry || i.user != "65532:65532" {
			t.Errorf("image %q is based on another image (%v), or runs as %q", stage, i.fromRegistry, i.user)
		}
		entries, err := os.ReadDir(filepath.Join(i.root, programs))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, entry := range entries {
			got = append(got, entry.Name())
			if why := loads(t, filepath.Join(i.root, programs, entry.Name())); why != "" {
				t.Errorf("%s loads %s", entry.Name(), why)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("image %q has the programs %q; want %q", stage, got, want)
		}
	}
	authorities, err := os.ReadFile(filepath.Join(images[""].root, "etc", "ssl", "certs", "ca-certificates.crt"))
	if err != nil || !strings.Contains(string(authorities), "-----BEGIN CERTIFICATE-----") {
		t.Errorf("the image of a node has no authorities: %v", err)
	}
	for _, name := range []string{"chronos", "chronos-bridge"} {
		out, status, err := images[""].run(nil, programs+"/"+name, "version")
		if err != nil || status != 0 || !strings.HasPrefix(out, name+" ") {
			t.Errorf("%s version: status %d, %v, %s", name, status, err, out)
		}
	}
}

// needContainers skips a test if no process may have a root folder of its own. In CI, needContainers fails the test instead.
func needContainers(t *testing.T) {
	t.Helper()
	if out, status, err := images[""].run(nil, programs+"/chronos", "version"); err != nil || status != 0 {
		testkit.Missing(t, fmt.Sprintf("no process may have a root folder of its own: %v %s", err, out))
	}
}

// loads names the programs and libraries that a program loads at its start.
func loads(t *testing.T, program string) string {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	libraries, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			libraries = append(libraries, "an interpreter")
		}
	}
	return strings.Join(libraries, " ")
}

// TestImageHasTheGoOfTheModule: the base image takes no other Go from the network.
func TestImageHasTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := modfile.ParseLax("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile(filepath.Join(repository, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	base := "golang:" + strings.TrimPrefix(version.Lang("go"+module.Go.Version), "go")
	if !strings.Contains(string(dockerfile), "FROM "+base+" AS ") {
		t.Errorf("go.mod has Go %s, and the Dockerfile is not based on %s", module.Go.Version, base)
	}
}

// TestNodeInAnImage runs the image of a node with the environment of the image. The image is healthy while the node runs, and
// commands in the image find the token of the node. The listeners have free ports of every address, as in a container.
func TestNodeInAnImage(t *testing.T) {
	t.Parallel()
	needContainers(t)
	i, redis := images[""], testkit.StartRedis(t)
	if want := []string{"7253", "7254"}; !slices.Equal(i.ports, want) {
		t.Errorf("the image exposes %q; want %q", i.ports, want)
	}
	port := testkit.FreePort(t)
	env := append(slices.Clone(i.env), "CHRONOS_REDIS="+redis.URL, "CHRONOS_LISTEN=:"+testkit.FreePort(t),
		"CHRONOS_ADMIN_LISTEN=:"+port, "CHRONOS_ADMIN_OPEN=true")
	healthy := func() bool {
		_, status, err := i.run(env, i.health...)
		return err == nil && status == 0
	}
	if healthy() {
		t.Error("the image is healthy before the node runs")
	}
	program, args := i.command(i.entrypoint...)
	node := testkit.Start(t, env, program, args...)
	testkit.Eventually(t, testkit.Soon, "the image is healthy", healthy)
	out, status, err := i.run(env, "chronos", "timer", "list", "--admin-url", "http://127.0.0.1:"+port)
	if err != nil || status != 0 {
		t.Errorf("chronos timer list, with the token of the node: status %d, %v, %s", status, err, out)
	}
	if err := node.Stop(testkit.Soon); err != nil {
		t.Errorf("the node ends by %v", err)
	}
	if healthy() {
		t.Error("the image is healthy after the end of the node")
	}
}
