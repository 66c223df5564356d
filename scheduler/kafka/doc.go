// Package kafka is a delay queue between two topics: what is
// published on the input topic comes out of the output topic when it is due.
//
// # Messages
//
// A record is a message if the record has the two headers that say which and when; the rest
// of the record is bytes that go out as they came in. What waits is kept in the store as one
// string under a key made of the message's id. Package message reads records and these strings.
//
// # Offsets
//
// A partition's offset is committed only as far as every record before it is in
// the store, on the output topic or on the dead-letter topic (watermark.go). Package output
// publishes.
//
// # Connections
//
// How to reach the brokers, with TLS and SASL, is a [Connection] (connect.go).
package kafka
