package check

import (
	"math/bits"
	"time"
)

const (
	subBucketBits = 7 // 128 buckets for each power of two: a quantile is at most 0.8 % too high
	subBuckets    = 1 << subBucketBits
	maxExponent   = 32 - subBucketBits // up to 2^33 µs, more than two hours
	bucketCount   = subBuckets * (maxExponent + 2)
)

// histogram counts durations in buckets of a microsecond; from 256 µs on, in buckets of 0.8 %. The size in memory is
// fixed. The zero value is empty. Not safe for concurrent use.
type histogram struct {
	buckets  [bucketCount]uint32
	count    int64
	min, max time.Duration
}

func (h *histogram) add(d time.Duration) {
	if h.count == 0 || d < h.min {
		h.min = d
	}
	if h.count == 0 || d > h.max {
		h.max = d
	}
	h.count++
	h.buckets[bucketOf(d)]++
}

func (h *histogram) merge(other *histogram) {
	if other.count == 0 {
		return
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	if h.count == 0 || other.max > h.max {
		h.max = other.max
	}
	h.count += other.count
	for i, n := range &other.buckets {
		h.buckets[i] += n
	}
}

// quantile returns an upper bound of the quantile q: the upper edge of a bucket.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q * float64(h.count))
	seen := int64(0)
	for i, n := range h.buckets[:bucketCount-1] { // the last bucket has no upper edge
		seen += int64(n)
		if seen > rank {
			return min(upperEdge(i), h.max)
		}
	}
	return h.max
}

func bucketOf(d time.Duration) int {
	us := max(0, d.Microseconds())
	exponent := max(0, bits.Len64(uint64(us))-subBucketBits-1)
	if exponent > maxExponent {
		return bucketCount - 1
	}
	return subBuckets*exponent + int(us>>exponent)
}

func upperEdge(bucket int) time.Duration {
	exponent := max(0, bucket/subBuckets-1)
	us := int64(bucket-subBuckets*exponent+1) << exponent
	return time.Duration(us)*time.Microsecond - 1
}
