// Package kafka is a delay queue between two topics: a message of the input topic is published on the
// output topic when the message is due.
//
// # Messages
//
// A record is a message if the record has two headers: an id and a deadline. The rest of the record
// goes out as the bytes that came in. The store keeps a waiting message as a string, under a key made
// of the message's id. Package message reads records and strings.
//
// # Offsets
//
// A partition's offset is committed only as far as every earlier record is in the store, on the output
// topic or on the dead-letter topic (watermark.go). Package output publishes.
//
// # Connections
//
// A [Connection] says how to reach the brokers, with TLS and SASL (connect.go).
package kafka
