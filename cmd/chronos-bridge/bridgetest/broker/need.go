package broker

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"chronos/scheduler/verify/testkit"
)

// oldestJava is the oldest version of Java that runs Kafka 4.
const oldestJava = 17

const installHint = "install Java 17 or newer and Maven (Debian: apt-get install default-jre-headless maven)"

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// Available reports whether this machine can run a broker, or the reason against.
func Available() (reason string, ok bool) {
	for _, name := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not on PATH", false
		}
	}
	said, err := exec.Command("java", "-version").CombinedOutput() //nolint:noctx // ends at once
	if err != nil {
		return fmt.Sprintf("java -version: %v", err), false
	}
	found := javaVersion.FindSubmatch(said)
	if found == nil {
		return fmt.Sprintf("java -version says no version: %q", said), false
	}
	if major, err := strconv.Atoi(string(found[1])); err != nil || major < oldestJava {
		return fmt.Sprintf("java is of version %s", found[1]), false
	}
	return "", true
}

// Need skips the test if no broker can run here. In CI, Need fails the test instead.
func Need(t testing.TB) {
	t.Helper()
	if reason, ok := Available(); !ok {
		testkit.Missing(t, "no Kafka broker: "+reason+"; "+installHint)
	}
}
