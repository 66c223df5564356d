package kafka

import (
	"context"
	"sync"
	"time"

	"chronos/scheduler/kafka/message"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds of what a partition has in hand, in addition to the bounds for all partitions (budget.go). A
// partition is paused at the bound, and goes on at half of the bound.
const (
	maxQueued      = 1000
	maxQueuedBytes = 16 << 20
	maxKept        = 100_000 // behind a record that is not done
	// Bounds of a batch for the store.
	maxBatch      = 500
	maxBatchBytes = 1 << 20 // unless the batch is a single record
)

// partition is a partition of this member: a queue, and a worker that empties the queue in order.
type partition struct {
	in    *input
	id    int32
	marks *watermark

	mu     sync.Mutex
	queue  []*kgo.Record
	bytes  int   // of the queue and of the batch in hand
	full   bool  // the queue is full
	behind bool  // too many records are kept
	stuck  int   // how many batches in hand wait for the store
	paused bool  // at the client, for one of these reasons
	ended  bool  // the client's partition is another by now
	read   int64 // all records before this offset have been read or are over; -1 before read is known

	marking  sync.Mutex // held while the client is told how far to commit
	ready    chan struct{}
	stopping chan struct{}      // closed when no more batches may begin
	cancel   context.CancelFunc // also ends the batch in hand
	worker   sync.WaitGroup
	pending  sync.WaitGroup // records whose promises are not kept yet
}

func startPartition(in *input, id int32) *partition {
	ctx, cancel := context.WithCancel(context.Background())
	p := &partition{
		in: in, id: id, marks: &watermark{}, ready: make(chan struct{}, 1), stopping: make(chan struct{}), cancel: cancel, read: -1,
	}
	in.bridge.metrics.lag.WithLabelValues(label(id))
	p.worker.Go(func() { p.work(ctx) })
	return p
}

// offer queues records. offer never blocks. offer returns false if the records stand before earlier
// records: then new records have the same offsets.
func (p *partition) offer(records []*kgo.Record) bool {
	defer p.in.weighAll() // when p.mu is free
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records {
		if !p.marks.polled(r.Offset, r.LeaderEpoch) {
			return false
		}
		p.read = r.Offset + 1
		if r.Attrs.IsControl() { // the end of a transaction is only passed
			p.marks.done(r.Offset)
			continue
		}
		p.queue = append(p.queue, own(r))
		p.use(sizeOf(r))
	}
	p.weigh()
	if len(records) > 0 {
		signal(p.ready)
	}
	return true
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func sizeOf(r *kgo.Record) int {
	const record = 200 // bytes of a record besides its content
	return record + message.Length(r)
}

// weigh checks whether too much is in hand; p.mu is held.
func (p *partition) weigh() {
	_, kept := p.marks.open()
	p.full = tooMuch(p.full, len(p.queue), maxQueued) || tooMuch(p.full, p.bytes, maxQueuedBytes) || p.bytes > 0 && p.in.budget.exceeded()
	p.behind = tooMuch(p.behind, kept, maxKept)
	p.pauseOrResume()
}

// use takes n more bytes, or gives bytes back if n is less than 0; p.mu is held.
func (p *partition) use(n int) {
	if p.ended {
		return // all bytes are given back
	}
	p.bytes += n
	p.in.budget.add(n)
}

func tooMuch(was bool, n, most int) bool { return n >= most || was && n > most/2 }

// pauseOrResume pauses or resumes the client's reading by full, behind and stuck; p.mu is held.
func (p *partition) pauseOrResume() {
	want := p.full || p.behind || p.stuck > 0
	if want == p.paused || p.ended {
		return
	}
	p.paused = want
	at := map[string][]int32{p.in.bridge.config.Input: {p.id}}
	if want {
		p.in.client.PauseFetchPartitions(at)
		p.in.bridge.metrics.paused.Inc()
	} else {
		p.in.client.ResumeFetchPartitions(at)
		p.in.bridge.metrics.paused.Dec()
	}
}

// take returns the next batch, nil at the end.
func (p *partition) take(ctx context.Context) []*kgo.Record {
	for {
		if batch := p.next(); batch != nil {
			return batch
		}
		select {
		case <-p.ready:
			p.mark()
		case <-p.stopping:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *partition) next() []*kgo.Record {
	select {
	case <-p.stopping:
		return nil
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for n < len(p.queue) && n < maxBatch {
		size := sizeOf(p.queue[n])
		if n > 0 && bytes+size > maxBatchBytes {
			break
		}
		n, bytes = n+1, bytes+size
	}
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	p.weigh()
	if n == 0 {
		return nil
	}
	return batch
}

// work empties the queue until the partition goes.
func (p *partition) work(ctx context.Context) {
	for batch := p.take(ctx); batch != nil; batch = p.take(ctx) {
		p.handle(ctx, batch)
		p.mark()
		p.handled(batch)
	}
}

// handled gives back the bytes of a batch, and forgets the records. A pending record has room of its own.
func (p *partition) handled(batch []*kgo.Record) {
	defer p.in.weighAll() // when p.mu is free
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range batch {
		p.use(-sizeOf(r))
	}
	clear(batch) // a part of the queue's array
	p.weigh()
}

// mark tells the client how far to commit.
func (p *partition) mark() {
	p.marking.Lock()
	defer p.marking.Unlock()
	offset, epoch, ok := p.marks.next()
	if !ok {
		return
	}
	topic := p.in.bridge.config.Input
	p.in.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{topic: {p.id: {Epoch: epoch, Offset: offset + 1}}})
}

// stick notes that one more batch waits for the store, and why.
func (p *partition) stick(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck++; p.stuck == 1 && !p.ended {
		p.in.stuckMore(why)
		p.pauseOrResume()
	}
}

// unstick notes that one less batch waits: the store is back, or the time is over.
func (p *partition) unstick(back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck--; p.stuck == 0 && !p.ended {
		p.in.stuckLess(back)
		p.pauseOrResume()
	}
}

// end ends the work. Records in hand may take as long as patience. The next member with the partition
// reads the rest again. Nothing is marked after end.
func (p *partition) end(patience time.Duration) {
	close(p.stopping)
	done := make(chan struct{})
	go func() { defer close(done); p.worker.Wait(); p.pending.Wait() }() // ends with the promises; a closed output keeps its promises
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	p.cancel()
	p.worker.Wait()
	p.mark()
	p.marking.Lock()
	p.marks.revoke()
	p.marking.Unlock()
	defer p.in.weighAll() // when p.mu is free
	p.mu.Lock()
	defer p.mu.Unlock()
	p.use(-p.bytes)
	p.ended = true
	if p.stuck > 0 {
		p.in.stuckLess(false)
	}
	if p.paused {
		p.in.bridge.metrics.paused.Dec()
	}
	p.in.bridge.metrics.lag.DeleteLabelValues(label(p.id))
}
