package kafka

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lagInterval is how often the brokers are asked where the input ends, and how long the brokers may
// take to answer.
const lagInterval = 2 * time.Second

// watch measures the lag of all partitions until ctx ends, and tells how much was left out of the log.
// New partitions are measured at once.
func (in *input) watch(ctx context.Context) {
	ticker := time.NewTicker(lagInterval)
	defer ticker.Stop()
	telling := time.NewTicker(tellInterval)
	defer telling.Stop()
	for {
		select {
		case <-in.located:
		case <-ticker.C:
		case <-telling.C:
			in.bridge.complaints.tellRest()
			continue
		case <-ctx.Done():
			return
		}
		in.measure(ctx)
	}
}

// measure asks the brokers, since fetches say nothing of a paused partition. Without an answer the last
// measurement stands.
func (in *input) measure(ctx context.Context) {
	ids := in.ids()
	if len(ids) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, lagInterval)
	defer cancel()
	starts, ends := in.listOffsets(bounded, ids, earliest), in.listOffsets(bounded, ids, latest)
	for id, end := range ends {
		if p := in.partition(id); p != nil {
			p.setLag(starts[id], end)
		}
	}
}

// Timestamps that stand for the ends of a partition.
const (
	latest   = -1
	earliest = -2
)

// listOffsets asks where every partition begins or ends, for a reader of committed records. Partitions
// without an answer are left out.
func (in *input) listOffsets(ctx context.Context, ids []int32, at int64) map[int32]int64 {
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = in.bridge.config.Input
	for _, id := range ids {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = id, at
		topic.Partitions = append(topic.Partitions, p)
	}
	ask := kmsg.NewPtrListOffsetsRequest()
	ask.IsolationLevel = 1 // read committed
	ask.Topics = append(ask.Topics, topic)
	told := make(map[int32]int64, len(ids))
	for _, shard := range in.client.RequestSharded(ctx, ask) { // a response for every leader
		answer, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok || shard.Err != nil {
			continue
		}
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					told[p.Partition] = p.Offset
				}
			}
		}
	}
	return told
}

// locate learns from where newly assigned partitions are read.
func (in *input) locate(_ context.Context, all map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for id, from := range all[in.bridge.config.Input] {
		if p := in.partition(id); p != nil {
			p.locate(from.EpochOffset().Offset)
		}
	}
	signal(in.located)
	return all, nil
}

// locate tells the partition from where to read; negative is the start.
func (p *partition) locate(from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read < 0 {
		p.read = max(from, 0)
	}
}

// setLag sets how far the partition is behind the topic, by the partition's first offset and its end.
func (p *partition) setLag(start, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.read < 0 {
		return
	}
	first, kept := p.marks.open()
	if kept == 0 {
		first = max(p.read, start) // records that were deleted unread are over
	}
	p.in.bridge.metrics.lag.WithLabelValues(label(p.id)).Set(float64(max(end-first, 0)))
}

// label is the partition's name in metrics.
func label(id int32) string { return strconv.Itoa(int(id)) }
