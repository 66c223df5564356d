package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fetchLimit lets even a slow registry send some 45 MB.
const fetchLimit = 5 * time.Minute

// artefacts is a folder that several processes use and no process changes.
type artefacts struct{ dir string }

// classpath lists every jar by name, in an order that doesn't depend on the file system.
func (a artefacts) classpath() (string, error) {
	jars, err := filepath.Glob(filepath.Join(a.dir, "libs", "*.jar"))
	if err != nil {
		return "", fmt.Errorf("list the jars: %w", err)
	}
	return strings.Join(jars, string(os.PathListSeparator)), nil
}

// Classpath is the class path of Kafka, for a broker that is not started by Launch.
func Classpath(ctx context.Context) (string, error) {
	kafka, err := fetch(ctx)
	if err != nil {
		return "", err
	}
	return kafka.classpath()
}

// formatted is the first content of a broker's data folder. Brokers get a copy, since another
// formatting would be another start of java. All brokers thus have the same cluster id and
// directory id, but nothing compares the ids of different clusters.
func (a artefacts) formatted() fs.FS { return os.DirFS(filepath.Join(a.dir, "formatted")) }

// fetch returns the artefacts of the pom, and makes missing artefacts.
func fetch(ctx context.Context) (artefacts, error) {
	pom, err := findPOM()
	if err != nil {
		return artefacts{}, err
	}
	text, err := os.ReadFile(pom)
	if err != nil {
		return artefacts{}, fmt.Errorf("read the pom: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return artefacts{}, fmt.Errorf("find the cache folder: %w", err)
	}
	sum := sha256.Sum256(text)
	dir := filepath.Join(cache, "chronos-kafka-test", hex.EncodeToString(sum[:]))
	err = makeOnce(dir, func(into string) error { return makeArtefacts(ctx, pom, into) })
	return artefacts{dir}, err
}

// findPOM looks in the working folder, for a test the folder of its package, and above.
func findPOM() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	for {
		pom := filepath.Join(dir, "deploy", "kafka-test", "pom.xml")
		if _, err := os.Stat(pom); err == nil {
			return pom, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find deploy/kafka-test/pom.xml: no folder above has it")
		}
		dir = parent
	}
}

// makeOnce makes a missing folder. The folder appears complete or not at all. If several
// processes want the folder, a single process makes the folder while all others wait.
func makeOnce(dir string, fill func(into string) error) error {
	isThere := func() bool {
		_, err := os.Stat(dir)
		return err == nil
	}
	if isThere() {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	unlock, err := lock(filepath.Join(parent, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if isThere() {
		return nil
	}
	temporary, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return fmt.Errorf("make a folder for the artefacts: %w", err)
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // renamed by now, or useless
	if err := fill(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("rename the artefacts: %w", err)
	}
	return nil
}

// lock waits until nobody holds the file, neither another process nor this process. The lock
// ends with the process at the latest.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = syscall.EINTR
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// makeArtefacts fetches the jars and formats a data folder.
func makeArtefacts(ctx context.Context, pom, into string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	err := run(ctx, "mvn", "--quiet", "--batch-mode", "--strict-checksums", "--file", pom,
		"dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(into, "libs"))
	if err != nil {
		return fmt.Errorf("fetch Kafka: %w", err)
	}
	a := artefacts{into}
	classpath, err := a.classpath()
	if err != nil {
		return err
	}
	// The ports don't get into the formatted folder.
	settings := filepath.Join(into, "format.properties")
	if err := os.WriteFile(settings, []byte(properties(1, 2, filepath.Join(into, "formatted"), nil)), 0o644); err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	format := append(javaArguments(into, classpath, false), "kafka.tools.StorageTool", "format", "--cluster-id", clusterID, "--config", settings)
	err = run(ctx, "java", format...)
	if err != nil {
		return fmt.Errorf("format a data folder: %w", err)
	}
	return nil
}

// run runs a command. The error has the end of the command's output.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // for a child of its own that holds the output
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w\n%s", name, err, lastLines(out, 40))
	}
	return nil
}

func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
