// Package wire is what goes over the wire: it reads the bodies of requests, writes
// those of answers, and says how a client is told of an error. It has no listener,
// no connection and no routes.
//
//   - Decoder reads one timer, DecodeBatch many, and DecodeReferences the timers of a
//     resynchronisation. They share a strict reader of JSON (scan.go), numbers
//     (decimal.go) and instants (instant.go).
//   - Render… write answers. Dead letters are views for encoding/json.
//   - Problem is a refusal (RFC 9457).
package wire
