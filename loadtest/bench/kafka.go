//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/loadtest/bench/figure"
)

const (
	kafkaSteady  = "1,000/s for a minute, 90 % for in 1 s, 10 % late already"
	kafkaAuto    = "1,000/s for a minute with advance auto"
	kafkaOne     = "one bridge"
	kafkaOneCopy = "one bridge, one copy of each message"
	kafkaTwo     = "two bridges"
	kafkaFour    = "four bridges"
	kafkaTenth   = "at 10 % of the highest rate"
	kafkaHalf    = "at 50 %"
	kafkaAlmost  = "at 90 %"
	kafkaHighest = "the highest rate that is held"

	kafkaMessages = 200_000 // for a measurement of rates
	kafkaSpan     = time.Minute
	jitterSpan    = 20 * time.Second
	warmUp        = 20 * time.Second // for the broker: Java compiles at run time
	searchSpan    = 10 * time.Second
	searchStep    = 2000 // messages a second
	searchMost    = 30_000
	heldP99       = 250 * time.Millisecond
	neverEarly    = "0s"                 // a value of CHRONOS_KAFKA_ADVANCE
	closeBy       = 5 * time.Millisecond // a message on time is at most this far from the deadline

	bridgeMB        = "bridge_mb"
	rememberedBytes = "remembered_bytes"
)

func kafkaSection() section {
	s := section{
		name: "kafka", once: true,
		table: figure.Table{
			Title: "Kafka bridge",
			Notes: []string{
				"A broker of Kafka, two redis-servers (two copies of each message unless it says one, appendfsync everysec), bridges, generator and reader on this one machine; messages of 200 bytes, advance 0 unless it says auto. " +
					"Lateness is from a message's deadline to the broker's append time, which is in whole milliseconds; of messages that were late already, from their sending.",
				"Enqueue: from the first of 200,000 messages that is stored to the last. Fire: as many that are due at one instant, from the first that is appended to the last. " +
					"The highest rate that is held: in steps of 2,000/s, p99 of the lateness at most 250 ms. " +
					"Bridge MB: the highest resident memory of a bridge. Remembered: what Redis keeps of each published message and copy.",
			},
			Columns: []figure.Column{
				{Metric: "p999_ms", Title: "lateness p99.9 ms"}, {Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"}, {Metric: "max_ms", Title: "max ms"},
				{Metric: "late_p999_ms", Title: "late already, p99.9 ms"}, {Metric: "early", Title: "early"}, {Metric: "within", Title: "within ± 5 ms, %"},
				{Metric: "enqueue", Title: "enqueue/s"}, {Metric: "fire", Title: "fire/s"}, {Metric: "rate", Title: "messages/s"},
				{Metric: bridgeMB, Title: "bridge MB"}, {Metric: rememberedBytes, Title: "remembered, B"},
			},
			Ours: kafkaSteady,
		},
		subjects: []subject{{name: kafkaSteady, measure: steadyMessages(neverEarly)}, {name: kafkaAuto, measure: steadyMessages("auto")}},
	}
	for _, k := range []struct {
		name            string
		bridges, copies int
	}{{kafkaOne, 1, 2}, {kafkaOneCopy, 1, 1}, {kafkaTwo, 2, 2}, {kafkaFour, 4, 2}} {
		s.subjects = append(s.subjects, subject{name: k.name, measure: ratesOfMessages(k.bridges, k.copies)})
	}
	return withJitter(s)
}

// withJitter adds the search for the highest rate, and then measurements at parts of the highest
// rate.
func withJitter(s section) section {
	highest := 0
	s.subjects = append(s.subjects, subject{name: kafkaHighest, measure: func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		highest, err = highestRate(ctx, b)
		add("rate", float64(highest))
		return err
	}})
	for _, k := range []struct {
		name    string
		percent int
	}{{kafkaTenth, 10}, {kafkaHalf, 50}, {kafkaAlmost, 90}} {
		s.subjects = append(s.subjects, subject{name: k.name, measure: func(ctx context.Context, b *bench, add func(string, float64)) error {
			if highest == 0 {
				return fmt.Errorf("%w: no highest rate was found", errAbsent)
			}
			rate := highest * k.percent / 100
			add("rate", float64(rate))
			return withKafka(ctx, b, 1, func(s *kafkaStack) error {
				if _, err := s.flow(ctx, load{rate: rate, span: b.span(warmUp)}); err != nil {
					return err
				}
				came, err := s.flow(ctx, load{rate: rate, span: b.span(jitterSpan)})
				if err != nil {
					return err
				}
				came.addTo(add)
				return nil
			})
		}})
	}
	return s
}

// steadyMessages measures a steady flow of messages. advance is a value of CHRONOS_KAFKA_ADVANCE.
func steadyMessages(advance string) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) error {
		return withKafka(ctx, b, 0, func(s *kafkaStack) error {
			s.advance = advance
			if err := s.startBridges(ctx, 1); err != nil {
				return err
			}
			if _, err := s.flow(ctx, load{rate: 1000, span: b.span(warmUp), late: 10}); err != nil {
				return err
			}
			came, err := s.flow(ctx, load{rate: 1000, span: b.span(kafkaSpan), late: 10})
			if err != nil {
				return err
			}
			came.addTo(add)
			return nil
		})
	}
}

// highestRate raises the rate in steps, and returns the last rate at which p99 of the lateness is
// at most heldP99.
func highestRate(ctx context.Context, b *bench) (held int, err error) {
	for rate := searchStep; rate <= searchMost; rate += searchStep {
		var p99 time.Duration
		err := withKafka(ctx, b, 1, func(s *kafkaStack) error {
			came, err := s.flow(ctx, load{rate: rate, span: b.span(searchSpan)})
			p99 = figure.Quantile(came.lateness, .99)
			return err
		})
		if err != nil && held == 0 {
			return 0, err
		}
		if err != nil || p99 > heldP99 {
			break // a rate that can't be measured is too high
		}
		held = rate
	}
	return held, nil //nolint:nilerr // a rate at which something went wrong is not held
}

// ratesOfMessages measures how fast bridges store messages, and how fast bridges publish messages.
func ratesOfMessages(bridges, copies int) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) error {
		n := b.size(kafkaMessages)
		due := time.Now().Add(time.Hour)
		if err := withKafka(ctx, b, 0, func(s *kafkaStack) error {
			s.copies = copies
			if err := s.preload(ctx, n, due); err != nil {
				return err
			}
			took, err := s.drain(ctx, bridges, n)
			if err == nil {
				add("enqueue", float64(n)/took.Seconds())
			}
			return err
		}); err != nil {
			return err
		}
		return withKafka(ctx, b, 0, func(s *kafkaStack) error {
			s.copies = copies
			before, err := s.dataset(ctx)
			if err != nil {
				return err
			}
			due := time.Now().Add(30*time.Second + time.Duration(n)*time.Second/4000)
			if err := s.preload(ctx, n, due); err != nil {
				return err
			}
			if _, err := s.drain(ctx, bridges, n); err != nil {
				return err
			}
			if left := time.Until(due); left < 2*time.Second {
				return errors.New("the messages were due before they were stored")
			}
			rate, err := s.fired(ctx, n, due)
			if err != nil {
				return err
			}
			add("fire", rate)
			after, err := s.dataset(ctx)
			if err != nil {
				return err
			}
			add(rememberedBytes, float64(after-before)/float64(n*copies))
			return s.addMemory(add)
		})
	}
}
