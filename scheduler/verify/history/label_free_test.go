package history

import "testing"

// A one-shot timer's receiver fails once, and the callback says that the attempt was the last. By the labels, the
// attempts are used up. Only a count of the arrivals shows that four attempts are missing.
func TestAWrongAttemptIsSeenWithoutLabels(t *testing.T) {
	b := clean()
	b.drop("/6", 1)
	b.called("/6", 0).Attempt = 5
	b.sample()
	r := small().Check(b.History)
	if got := failed(&r); len(got) > 0 {
		t.Errorf("the labelled check sees %v; the error should be seeded better", got)
	}
	if r.Of(LabelFree).Total != 1 || r.Verdict != VerdictFailed {
		t.Errorf("not seen:\n%s", text(t, &r))
	}
}

func TestArrivalsWithoutLabels(t *testing.T) {
	for _, d := range []struct {
		name string
		do   func(*book)
		want int
	}{
		{"all is well", func(*book) {}, 0},
		{"missing", func(b *book) { b.drop("/1", 0) }, 1},
		{"one of five missing", func(b *book) { b.drop("/2", 2) }, 1},
		{"one too many", func(b *book) { b.call("k2", "/2", 2, 5, 1, 5400, 200) }, 1},
		{"one too many that was refused", func(b *book) { b.call("k2", "/2", 2, 5, 1, 5400, 500) }, 0},
		{"one too many in a fault's window", func(b *book) { b.call("k2", "/2", 2, 5, 1, 5400, 200); b.fault(NodeDeath, "n1", 5300, 7000) }, 0},
		{"one too many before a fault", func(b *book) { b.call("k2", "/2", 2, 5, 1, 5400, 200); b.fault(NodeDeath, "n1", 6000, 7000) }, 1},
		{"early, and so one missing", func(b *book) { b.called("/1", 0).move(at(1000)) }, 2},
		{"late, and so one missing", func(b *book) { b.called("/1", 0).move(at(2000)) }, 2},
		{"wrong labels, right times", func(b *book) {
			b.called("/2", 1).Seq, b.called("/2", 2).Seq = 3, 2
			b.called("/1", 0).Version = "?"
		}, 0},
		{"refused five times", func(b *book) {
			b.drop("/6", 1)
			for i, ms := range []int{2600, 4600, 8600, 16600} {
				b.call("k6", "/6", 6, 1, i+2, ms, 500)
			}
		}, 0},
		{"refused four times", func(b *book) {
			b.drop("/6", 1)
			for i, ms := range []int{2600, 4600, 8600} {
				b.call("k6", "/6", 6, 1, i+2, ms, 500)
			}
		}, 1},
		{"pop skipped while a callback ran", func(b *book) { b.called("/2", 0).AnsweredNs = at(3150); b.drop("/2", 1) }, 0},
		{"pop skipped before it ran so long", func(b *book) { b.called("/2", 0).AnsweredNs = at(3149); b.drop("/2", 1) }, 1},
	} {
		t.Run(d.name, func(t *testing.T) {
			b := clean()
			d.do(b)
			r := small().Check(b.History)
			if f := r.Of(LabelFree); f.Total != d.want {
				t.Errorf("%d violations, want %d: %q", f.Total, d.want, f.Violations)
			}
		})
	}
	t.Run("outage", func(t *testing.T) {
		b := outage(7, 8, 9, 10)
		r := small().Check(b.History)
		if f := r.Of(LabelFree); f.Total != 0 {
			t.Errorf("%d violations: %q", f.Total, f.Violations)
		}
	})
}
