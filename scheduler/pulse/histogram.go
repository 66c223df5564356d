package pulse

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets. Durations of less than subBuckets µs have a bucket each µs; further
// on, each power of 2 has subBuckets buckets. A quantile is the end of a bucket, so at most an eighth too long. (The
// buckets are those of HdrHistogram with one digit.) The zero value has no durations.
type histogram struct {
	counts  [buckets]uint32
	total   uint64
	longest time.Duration
}

const (
	subBits    = 3
	subBuckets = 1 << subBits
	buckets    = 34 * subBuckets // longer durations than 2^36 µs, 19 hours, count in the last bucket
)

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0)) //nolint:gosec // not negative
	if us < subBuckets {
		return int(us) //nolint:gosec // below 8
	}
	shift := bits.Len64(us) - subBits - 1
	return min((shift+1)*subBuckets+int(us>>shift)-subBuckets, buckets-1) //nolint:gosec // below 16
}

// endOf is the end of a bucket.
func endOf(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket+1) * time.Microsecond
	}
	shift := bucket/subBuckets - 1
	return time.Duration(bucket%subBuckets+subBuckets+1) << shift * time.Microsecond
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	h.longest = max(h.longest, d)
}

func (h *histogram) join(o *histogram) {
	for i, n := range &o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.longest = max(h.longest, o.longest)
}

// quantile is a duration that the share q of the durations does not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	below := uint64(float64(h.total) * q)
	for i, n := range &h.counts {
		if uint64(n) > below {
			return min(endOf(i), h.longest)
		}
		below -= uint64(n)
	}
	return h.longest
}
