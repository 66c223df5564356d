package role

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/valyala/fasthttp"
)

// The peer asynq is used as in the documentation of asynq. A client enqueues delayed tasks, and the
// handler of a server posts the callback.

const (
	taskType = "callback"
	rfcMilli = "2006-01-02T15:04:05.000Z07:00"
)

// task is the payload: the data of a timer of chronos, and the due time.
type task struct {
	URI    string `json:"uri"`
	Opaque string `json:"opaque"`
	Due    string `json:"due"`
}

func runEnqueue(ctx context.Context, o options) (any, error) {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: o.redis, PoolSize: o.goroutines})
	defer func() { _ = client.Close() }()
	opaque := strings.Repeat("x", Opaque)
	took := parallel(ctx, o.n, o.goroutines, o.rate, func(i int) error {
		due := time.Now().Add(time.Duration(o.delayMs) * time.Millisecond)
		if o.at > 0 {
			due = time.UnixMilli(o.at)
		}
		// Whole milliseconds, rounded up.
		due = due.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC()
		payload, err := json.Marshal(task{URI: o.url + "/" + strconv.Itoa(i), Opaque: opaque, Due: due.Format(rfcMilli)})
		if err != nil {
			return fmt.Errorf("encode task: %w", err)
		}
		if _, err := client.EnqueueContext(ctx, asynq.NewTask(taskType, payload), asynq.ProcessAt(due)); err != nil {
			return fmt.Errorf("enqueue task: %w", err)
		}
		return nil
	})
	return &took, ctx.Err()
}

func runWork(ctx context.Context, o options) (any, error) {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: o.redis, PoolSize: o.goroutines}, asynq.Config{
		Concurrency: o.goroutines, LogLevel: asynq.ErrorLevel, DelayedTaskCheckInterval: o.check, ShutdownTimeout: time.Second,
	})
	client := &fasthttp.Client{MaxConnsPerHost: o.goroutines, NoDefaultUserAgentHeader: true}
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var c task
		if err := json.Unmarshal(t.Payload(), &c); err != nil {
			return fmt.Errorf("decode task: %w", err)
		}
		return fastPost(client, c.URI, c.Due, []byte(c.Opaque))
	}))
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	<-ctx.Done()
	server.Shutdown()
	return nil, nil //nolint:nilnil // it has nothing to say
}
