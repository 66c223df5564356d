// Package broker starts real Kafka brokers: one process each, made of what Maven
// fetches. A Broker is for a test, which stops, kills and starts it again; a Server
// is for benchmarks, and to try something.
package broker
