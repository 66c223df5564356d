package testkit

import (
	"flag"
	"fmt"
	"testing"
)

// RapidChecks sets how many runs rapid makes in a test, unless the command line names a number.
func RapidChecks(t testing.TB, n int) {
	t.Helper()
	const name = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	value := flag.Lookup(name).Value
	was := value.String()
	if err := value.Set(fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = value.Set(was) })
}
