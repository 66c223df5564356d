package kafka

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/awake"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/replica"
)

const (
	maxPoll = 10_000 // records
	// Bounds of a fetch from one broker, of a partition's part of the fetch, as sent, and of a batch
	// once decompressed. The client may hold as much in addition to the records that the partitions
	// have in hand.
	maxFetch, maxPartitionFetch = 2 << 20, 128 << 10
	maxDecompressed             = 64 << 20

	commitInterval = 500 * time.Millisecond
	sessionTimeout = 10 * time.Second // another bridge takes over the partitions of a killed bridge
	// heartbeat is how soon a member learns that members came or went. Until all members have learned,
	// nobody reads the partitions that change hands.
	heartbeat = 500 * time.Millisecond
	// patience is how long partitions that are given back may take for the records in hand.
	patience = 2 * time.Second
	// commitTime bounds the last commit of partitions.
	commitTime = 5 * time.Second
	errorPause = 250 * time.Millisecond
	// leaveTime bounds the whole end of the membership, patience and commitTime included.
	leaveTime = 8 * time.Second
)

// input reads the topic. The poll loop blocks on nothing but the brokers: records go to the partitions'
// workers, and a partition with too many records is paused. The member therefore stays in its group
// whatever the store does.
type input struct {
	bridge *Bridge
	timers Timers
	log    *slog.Logger
	client *kgo.Client

	room      *room          // for records on their way to the brokers that didn't wait in a timer
	store     *room          // for messages on their way to the timers
	budget    budget         // for records that partitions have in hand
	pending   sync.WaitGroup // the records in room
	published chan published // messages of room that the timers must remember
	late      *lateIDs       // the ids of messages in room

	located chan struct{} // says that partitions know from where to read

	mu       sync.Mutex
	assigned map[int32]*partition
	stuck    int // partitions that wait for the store
}

// published is a message that came late, and is on the output now.
type published struct {
	partition *partition
	admission replica.Admission
	record    *kgo.Record
}

func newInput(b *Bridge, timers Timers) (*input, error) {
	in := &input{
		bridge: b, timers: timers, log: b.log, room: newRoom(maxLate), store: newRoom(atStore),
		published: make(chan published, maxLate), late: newLateIDs(), located: make(chan struct{}, 1), assigned: make(map[int32]*partition),
	}
	client, err := b.connect(
		kgo.ConsumerGroup(b.config.Group),
		kgo.ConsumeTopics(b.config.Input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // nothing is left out
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // without control records, a partition would never be read to its end
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(maxFetch),
		kgo.FetchMaxPartitionBytes(maxPartitionFetch),
		kgo.MaxDecompressBatchBytes(maxDecompressed),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(heartbeat),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(commitInterval),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(in.assign),
		kgo.AdjustFetchOffsetsFn(in.locate),
		kgo.OnPartitionsRevoked(in.revoke),
		kgo.OnPartitionsLost(in.lose),
	)
	if err != nil {
		return nil, err
	}
	in.client = client
	return in, nil
}

// run polls until ctx ends, then commits what is done and leaves the group.
func (in *input) run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { in.watch(ctx) })
	for ctx.Err() == nil {
		fetches := in.client.PollRecords(ctx, maxPoll)
		failed, anew := false, false
		fetches.EachError(func(topic string, p int32, err error) {
			if ctx.Err() != nil {
				return
			}
			if long, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
				in.skip(long)
				return
			}
			failed, anew = true, anew || errors.Is(err, kerr.UnknownTopicID)
			in.complain(topic, p, err)
		})
		fetches.EachPartition(in.take)
		in.client.AllowRebalance()
		if anew {
			in.beginAnew()
		}
		if failed && fetches.NumRecords() == 0 {
			awake.Sleep(ctx, errorPause) // the client makes no pause after errors that the client takes to be final
		}
	}
	watching.Wait()
	in.leave()
}

// complain logs why a poll failed: for the whole group, or for one partition.
func (in *input) complain(topic string, p int32, err error) {
	b := in.bridge
	if _, ok := errors.AsType[*kgo.ErrGroupSession](err); ok {
		b.complaints.unjoined.say("group", b.config.Group, "err", b.config.advised(topic, err))
		return
	}
	b.complaints.unread.say("topic", topic, "partition", p, "err", b.config.advised(topic, err))
}

// beginAnew reads another topic of the same name. The client sticks to the deleted topic until told to
// forget the topic. Nothing may be marked later: the mark would be committed for the new topic.
func (in *input) beginAnew() {
	topic := in.bridge.config.Input
	in.log.Warn("topic was deleted; it is read again from its start, when it is there again", "topic", topic)
	in.release(in.client, map[string][]int32{topic: in.ids()}, 0)
	in.client.PurgeTopicsFromConsuming(topic)
	in.client.AddConsumeTopics(topic)
}

// take gives a partition the records that were read. Records before an error count, too: the client
// goes on behind the records.
func (in *input) take(f kgo.FetchTopicPartition) {
	p := in.partition(f.Partition)
	if p == nil || f.Err != nil && len(f.Records) == 0 {
		return
	}
	if !p.offer(f.Records) {
		in.restart(p).offer(f.Records)
	}
}

// skip goes on behind a batch that is too long to be read. One dead letter stands for all records of
// the batch.
func (in *input) skip(long *kgo.ErrDecompressTooLarge) {
	p := in.partition(long.Partition)
	if p == nil {
		return
	}
	in.take(kgo.FetchTopicPartition{Topic: long.Topic, FetchPartition: kgo.FetchPartition{
		Partition: long.Partition, HighWatermark: long.NextOffset, Records: []*kgo.Record{message.Skipped(long)},
	}})
	// An offset without an epoch sorts before all marks: the client must not take unfinished records
	// for committed. The client doesn't know a partition without records until something is marked.
	at := func(offset int64) map[string]map[int32]kgo.EpochOffset {
		return map[string]map[int32]kgo.EpochOffset{long.Topic: {long.Partition: {Epoch: -1, Offset: offset}}}
	}
	in.client.MarkCommitOffsets(at(0))
	in.client.SetOffsets(at(long.NextOffset))
}

// weighAll looks at all partitions when the budget is exceeded now, or no longer.
func (in *input) weighAll() {
	if !in.budget.changed() {
		return
	}
	in.mu.Lock()
	all := slices.Collect(maps.Values(in.assigned))
	in.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.weigh()
		p.mu.Unlock()
	}
}

// leave revokes all partitions and leaves the group. Brokers that don't answer notice by themselves
// that the member is gone.
func (in *input) leave() {
	in.client.AllowRebalance()
	bounded, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := in.client.LeaveGroupContext(bounded); err != nil {
		in.log.Warn("could not leave the group; others take over when the session ends", "err", err)
	}
	in.client.Close()
}

// remember has the timers remember messages that were published without them, until in.published is
// closed. A message that the timers can't remember is published again if read again.
func (in *input) remember(ctx context.Context) {
	for one := range in.published {
		batch := []published{one}
		for len(batch) < maxBatch && len(in.published) > 0 {
			batch = append(batch, <-in.published)
		}
		admissions := make([]replica.Admission, len(batch))
		for i, one := range batch {
			admissions[i] = one.admission
		}
		in.timers.Remember(ctx, admissions)
		for i, one := range batch {
			if err := admissions[i].Err; err != nil {
				in.log.Debug("published message is not remembered", "key", admissions[i].Key, "err", err)
			}
			in.late.free(&admissions[i])
			one.partition.over(one.record)
		}
	}
}

// stuckMore counts a partition that waits for the store. The log has a line when the store goes, and a
// line when the store is back.
func (in *input) stuckMore(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stuck++; in.stuck == 1 {
		in.log.Warn("store can't be used; partitions are paused until it is back, and nothing is committed", "err", why)
	}
}

func (in *input) stuckLess(back bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stuck--; in.stuck == 0 && back {
		in.log.Info("store is back; partitions go on")
	}
}

// restart starts again with a partition whose log was cut: the records in hand no longer stand at their
// offsets.
func (in *input) restart(p *partition) *partition {
	in.log.Warn("topic was cut or made anew; it is read again from an earlier offset", "partition", p.id)
	p.end(0)
	in.client.ResumeFetchPartitions(map[string][]int32{in.bridge.config.Input: {p.id}})
	in.mu.Lock()
	defer in.mu.Unlock()
	in.assigned[p.id] = startPartition(in, p.id)
	return in.assigned[p.id]
}

func (in *input) partition(id int32) *partition {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.assigned[id]
}

func (in *input) ids() []int32 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Collect(maps.Keys(in.assigned))
}

func (in *input) assign(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, id := range all[in.bridge.config.Input] {
		if in.assigned[id] == nil {
			in.assigned[id] = startPartition(in, id)
		}
	}
	in.log.Info("partitions have come", "topic", in.bridge.config.Input, "partitions", all[in.bridge.config.Input])
}

// revoke ends the work on partitions that go to another member, and commits the finished records.
func (in *input) revoke(ctx context.Context, client *kgo.Client, all map[string][]int32) {
	in.release(client, all, patience)
	bounded, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	if err := client.CommitMarkedOffsets(bounded); err != nil {
		in.log.Warn("could not commit; some messages are read again, and recognised", "err", err)
	}
}

// lose ends the work on partitions that another member has already.
func (in *input) lose(_ context.Context, client *kgo.Client, all map[string][]int32) {
	in.release(client, all, 0)
}

func (in *input) release(client *kgo.Client, all map[string][]int32, patience time.Duration) {
	ids := all[in.bridge.config.Input]
	if len(ids) == 0 {
		return
	}
	in.mu.Lock()
	var going []*partition
	for _, id := range ids {
		if p := in.assigned[id]; p != nil {
			going = append(going, p)
			delete(in.assigned, id)
		}
	}
	in.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range going {
		ending.Go(func() { p.end(patience) })
	}
	ending.Wait()
	client.ResumeFetchPartitions(all) // a pause would outlast the assignment
	in.log.Info("partitions have gone", "topic", in.bridge.config.Input, "partitions", ids)
}
