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

// fetchLimit is for a slow registry: some 45 MB.
const fetchLimit = 5 * time.Minute

// artefacts is a folder that several processes use and none changes.
type artefacts struct{ dir string }

// classpath has every jar by name, in an order that doesn't depend on the file
// system.
func (a artefacts) classpath() (string, error) {
	jars, err := filepath.Glob(filepath.Join(a.dir, "libs", "*.jar"))
	if err != nil {
		return "", fmt.Errorf("list the jars: %w", err)
	}
	return strings.Join(jars, string(os.PathListSeparator)), nil
}

// formatted is what a broker's data folder has in it at first. It is copied, since
// to format each anew would be another start of java. All brokers have one cluster
// id and one directory id by that, which nothing compares across clusters.
func (a artefacts) formatted() fs.FS { return os.DirFS(filepath.Join(a.dir, "formatted")) }

// fetch returns the artefacts of the pom, which are made if they are not there.
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

// findPOM looks above the working folder, which for a test is its package's.
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

// makeOnce has a folder made if it isn't there. It appears complete or not at all,
// and of several processes that want it one makes it while the others wait.
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
	defer os.RemoveAll(temporary) //nolint:errcheck // it has another name by now, or is of no use
	if err := fill(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("rename the artefacts: %w", err)
	}
	return nil
}

// lock waits until no other process, and nobody in this one, holds the file. The
// lock ends with the process at the latest.
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
	// The ports don't get into what is formatted.
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

// run runs a command, and has what it printed in the error.
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
