// Package bridgetest proves the bridge's promises on real processes: bridges as they
// are built for users, a Kafka broker and redis-servers of their own, signals that
// really end or stop them. It holds nothing but tests.
package bridgetest
