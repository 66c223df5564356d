// Package processtest proves the promises on real processes: nodes as built for users,
// redis-servers, and signals that really end or stop the processes. The package holds only
// tests.
package processtest
