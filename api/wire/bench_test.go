package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"chronos/api/apitest"
)

func BenchmarkDecode(b *testing.B) {
	for name, body := range map[string]string{
		"least":   `{"timing":{"interval":30},"callback":{"http":{"uri":"http://10.0.0.17:8080/cb","opaque":"id-17"}}}`,
		"typical": apitest.Typical,
		"large":   strings.Replace(apitest.Typical, "sip:", strings.Repeat("abcdefgh", 4096), 1),
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(body)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			var d Decoder
			for b.Loop() {
				if _, _, err := d.Decode(raw, Lenient); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The time of encoding/json for the same body, without checks.
func BenchmarkDecodeWithEncodingJSON(b *testing.B) {
	raw := []byte(apitest.Typical)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		var peer foundView
		if err := json.Unmarshal(raw, &peer); err != nil {
			b.Fatal(err)
		}
	}
}
