package tokens

import (
	"fmt"
	"testing"
	"time"
)

// The most expensive way through Check, by the number of lines.
func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 10, 100, maxTokens} {
		token, line := generate(b, "a", Write)
		lines := []string{line + " rate=1000000 burst=1000000"}
		for i := range n - 1 {
			lines = append(lines, fmt.Sprintf("n%d read %s", i, hash(i)))
		}
		s, h := parse(b, lines...), header(token)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			now := time.Now()
			for b.Loop() {
				now = now.Add(time.Microsecond) // as the rate allows
				if s.Check(h, Write, now).Outcome != OK {
					b.Fatal("refused")
				}
			}
		})
	}
}

// The cost of a try with a wrong token.
func BenchmarkCheckUnknown(b *testing.B) {
	_, line := generate(b, "a", Write)
	token, _ := generate(b, "b", Write)
	s := parse(b, line)
	for name, h := range map[string][]byte{"form": header(token), "malformed": header(token)[:50]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Check(h, Write, time.Now())
			}
		})
	}
}
