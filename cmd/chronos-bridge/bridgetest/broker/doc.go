// Package broker starts real Kafka brokers. Every broker is a process, made of the files that
// Maven fetches. A Broker is for a test: the test can stop, kill and restart the broker. A
// Server is for benchmarks and experiments.
package broker
