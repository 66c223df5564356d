package history

// backToNormal is invariant 12, about processes that were sampled at the begin and after the end of the load. Memory,
// goroutines and descriptors may grow by at most a quarter (Limits.Growth) and a fixed amount. A value of 0 in either
// sample is not compared. A restarted node is another process.
func backToNormal(r *run, f *Finding) {
	type process struct {
		node   string
		number int
	}
	begun := make(map[process]*Sample)
	for i := range r.h.Samples {
		if s := &r.h.Samples[i]; s.Phase == Begin {
			begun[process{s.Node, s.Process}] = s
		}
	}
	compared := 0
	for i := range r.h.Samples {
		s := &r.h.Samples[i]
		b := begun[process{s.Node, s.Process}]
		if s.Phase != Finish || b == nil {
			continue
		}
		for _, v := range []struct {
			what              string
			begin, end, spare int64
		}{
			{"bytes of memory", b.MemoryBytes, s.MemoryBytes, r.l.SpareMemoryBytes},
			{"goroutines", b.Goroutines, s.Goroutines, r.l.SpareGoroutines},
			{"descriptors", b.Descriptors, s.Descriptors, r.l.SpareDescriptors},
		} {
			if v.begin == 0 || v.end == 0 {
				continue
			}
			compared++
			if most := v.begin + int64(r.l.Growth*float64(v.begin)) + v.spare; v.end > most {
				f.violation("node %s process %d: %d %s at the begin, %d at the end", s.Node, s.Process, v.begin, v.what, v.end)
			}
		}
	}
	if compared == 0 {
		f.notJudged("no process was sampled at the begin and at the end")
	}
}
