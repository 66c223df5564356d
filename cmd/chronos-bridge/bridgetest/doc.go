// Package bridgetest proves the bridge's promises on real processes: bridges as built for
// users, Kafka brokers, redis-servers, and signals that really end or stop the processes.
// The package holds only tests.
package bridgetest
