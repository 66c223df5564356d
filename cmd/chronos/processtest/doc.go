// Package processtest proves the promises on real processes: nodes as they are
// built for users, redis-servers of their own, signals that really end or stop
// them. It holds nothing but tests.
package processtest
