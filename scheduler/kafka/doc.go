// Package kafka is a delay queue between two topics: what is
// published on the input topic comes out of the output topic when it is due.
//
// # Messages
//
// A record is a [Message] if it has the two headers that say which and when
// (headers.go, deadline.go); the rest of it is bytes that go out as they came in,
// null kept apart from empty, headers in their order with their repeats. What
// waits is kept in the store as one string under a key made of its id (message.go).
//
// # Offsets
//
// A partition's offset is committed only as far as every record before it is in
// the store, on the output topic or on the dead-letter topic (watermark.go).
//
// # Connections
//
// How to reach the brokers, with TLS and SASL, is a [Connection] (connect.go).
package kafka
