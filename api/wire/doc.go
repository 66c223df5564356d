// Package wire reads the bodies of requests, writes the bodies of answers, and makes the answer to
// an error. The package has no listener, no connection and no routes.
//
//   - Decoder reads one timer, DecodeBatch many, and DecodeReferences the timers of a
//     resynchronisation. The decoders share a strict reader of JSON (scan.go), numbers (decimal.go)
//     and instants (instant.go).
//   - Patch merges the body of a PATCH into a timer, which a Decoder then reads.
//   - Render… write answers. Dead letters are views for encoding/json.
//   - Problem is a refusal (RFC 9457).
package wire
