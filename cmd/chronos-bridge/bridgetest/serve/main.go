// Command serve is behind `make kafka`: a Kafka broker on the loopback interface, to try the
// bridge with. The broker keeps no data, and ends with Ctrl-C.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
)

const (
	port       = 9092
	partitions = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, out io.Writer) error {
	if reason, ok := broker.Available(); !ok {
		return fmt.Errorf("start a broker: %s; install Java 17 and Maven (Debian: apt-get install default-jre-headless maven)", reason)
	}
	dir, err := os.MkdirTemp("", "chronos-kafka-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := broker.Launch(ctx, dir, port, true)
	if err != nil {
		return fmt.Errorf("start a broker: %w", err)
	}
	defer server.Kill()
	for _, topic := range []string{"delay-in", "delay-out", "delay-dead"} {
		if err := server.CreateTopic(ctx, topic, partitions, nil); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(out, "Kafka is at %s with topics delay-in, delay-out and delay-dead of %d partitions; Ctrl-C ends it\n", server.Addr(), partitions)
	<-ctx.Done()
	return nil
}
