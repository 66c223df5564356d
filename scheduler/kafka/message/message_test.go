package message

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chronos/scheduler/timer"
)

// wantMessage tells null from empty, as cmp does by default.
func wantMessage(t rapid.TB, want, got Message) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("message (-want +got):\n%s", diff)
	}
}

func full() Message {
	return Message{
		ID: "3767d5c7-aced-45e5-91f1-3f7ad8205a3f", Deadline: time.Date(2022, 12, 1, 11, 9, 1, 123e6, time.UTC),
		From: Origin{Topic: "in", Partition: 3, Offset: 1 << 40}, Key: []byte("k\x00\xff"), Value: []byte(`{"a": 1}`),
		Headers: []Header{{"b", []byte("2")}, {"a", nil}, {"b", []byte{}}, {"", []byte("\xfe")}, {"b", []byte("2")}, {"\xff", nil}},
	}
}

func TestOriginString(t *testing.T) {
	if got, want := (Origin{Topic: "a.b-c_d", Partition: 7, Offset: 1 << 40}).String(), "a.b-c_d/7/1099511627776"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMessageRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*Message){
		"full":                 func(*Message) {},
		"null key":             func(m *Message) { m.Key = nil },
		"empty key":            func(m *Message) { m.Key = []byte{} },
		"null value":           func(m *Message) { m.Value = nil },
		"empty value":          func(m *Message) { m.Value = []byte{} },
		"large value":          func(m *Message) { m.Value = bytes.Repeat([]byte{0, 0x80, 0xff}, 1<<13) },
		"no headers":           func(m *Message) { m.Headers = nil },
		"many headers":         func(m *Message) { m.Headers = append(make([]Header, 1000), m.Headers...) },
		"id isn't UTF-8":       func(m *Message) { m.ID = "\xff\x00\xfe" },
		"longest id":           func(m *Message) { m.ID = strings.Repeat("\x80", 128) },
		"before 1970":          func(m *Message) { m.Deadline = time.Date(0, 1, 1, 0, 0, 0, 1e6, time.UTC) },
		"as late as there is":  func(m *Message) { m.Deadline = time.UnixMilli(999_999_999_999_999).UTC() },
		"partition and offset": func(m *Message) { m.From.Partition, m.From.Offset = math.MaxInt32, math.MaxInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			want := full()
			change(&want)
			got, err := Decode(want.Encode())
			if err != nil {
				t.Fatal(err)
			}
			wantMessage(t, want, got)
		})
	}
}

// TestFrameIsStable: stores hold texts of this form, so a changed form needs another version.
func TestFrameIsStable(t *testing.T) {
	m := Message{
		ID: "id", Deadline: time.UnixMilli(1).UTC(), From: Origin{Topic: "in", Partition: 1, Offset: 2},
		Key: nil, Value: []byte{}, Headers: []Header{{"h", []byte("v")}, {"n", nil}},
	}
	want := "\x01" + "\x02id" + "\x02" + "\x02in" + "\x02" + "\x04" + "\x00" + "\x01" + "\x02" + "\x01h\x02v" + "\x01n\x00"
	if got, _ := base64.RawStdEncoding.DecodeString(m.Encode()); string(got) != want {
		t.Errorf("frame is %q, want %q", got, want)
	}
}

func TestDecodedMessageHoldsNothingOfItsNeighbor(t *testing.T) {
	m := full()
	got, err := Decode(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	got.Key = append(got.Key, "overwritten"...) // a slice with room would let this reach the value
	got.Key = nil
	want := full()
	want.Key = nil
	wantMessage(t, want, got)
}

func TestDecodeRefuses(t *testing.T) {
	m := full()
	frame, err := base64.RawStdEncoding.DecodeString(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	for n := range frame {
		want := errTruncated
		if got, err := Decode(base64.RawStdEncoding.EncodeToString(frame[:n])); !errors.Is(err, want) {
			t.Errorf("%d of %d bytes: %+v, %v; want %v", n, len(frame), got, err, want)
		}
	}
	prefix := func(id string, deadline, partition, offset int64) []byte {
		b := binary.AppendVarint(appendText([]byte{frameVersion}, id), deadline)
		return binary.AppendVarint(binary.AppendVarint(appendText(b, "in"), partition), offset)
	}
	endless := bytes.Repeat([]byte{0xff}, 11)
	fine := prefix("id", 0, 0, 0)
	for _, c := range []struct {
		name  string
		frame []byte
		want  error
	}{
		{"version 0", append([]byte{0}, frame[1:]...), errVersion},
		{"version 2", append([]byte{2}, frame[1:]...), errVersion},
		{"a byte more", append(bytes.Clone(frame), 0), errTrailing},
		{"a message more", append(bytes.Clone(frame), frame...), errTrailing},
		{"endless length", append([]byte{frameVersion}, endless...), errTruncated},
		{"longest length", binary.AppendUvarint([]byte{frameVersion}, math.MaxUint64), errTruncated},
		{"longest key", binary.AppendUvarint(bytes.Clone(fine), math.MaxUint64), errTruncated},
		{"a key of one byte more than there is", append(bytes.Clone(fine), 3, 'k'), errTruncated},
		{"more headers than bytes", binary.AppendUvarint(append(bytes.Clone(fine), 0, 0), math.MaxUint64), errTruncated},
		{"more headers than fit", append(bytes.Clone(fine), 0, 0, 2, 0, 0, 0), errTruncated},
		{"no id", append(prefix("", 0, 0, 0), 0, 0, 0), errIDLength},
		{"an id too long", append(prefix(strings.Repeat("x", 129), 0, 0, 0), 0, 0, 0), errIDLength},
		{"deadline too late", append(prefix("id", maxEpoch, 0, 0), 0, 0, 0), errRange},
		{"deadline too early", append(prefix("id", -maxEpoch, 0, 0), 0, 0, 0), errRange},
		{"partition too high", append(prefix("id", 0, math.MaxInt32+1, 0), 0, 0, 0), errRange},
		{"partition negative", append(prefix("id", 0, -1, 0), 0, 0, 0), errRange},
		{"offset negative", append(prefix("id", 0, 0, -1), 0, 0, 0), errRange},
		{"as short as can be", append(prefix("i", 0, 0, 0), 0, 0, 0), nil},
	} {
		if _, err := Decode(base64.RawStdEncoding.EncodeToString(c.frame)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for _, text := range []string{"AQ==", "\xff\xff", "AQ-_", "{}", m.Encode() + "="} {
		if _, err := Decode(text); !errors.Is(err, errNotBase64) {
			t.Errorf("%.10q: %v, want %v", text, err, errNotBase64)
		}
	}
}

func drawBytes(t *rapid.T, label string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	return rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, label)
}

func drawMessage(t *rapid.T) Message {
	text := rapid.Custom(func(t *rapid.T) string { return string(drawBytes(t, "text")) })
	m := Message{
		ID:       string(rapid.SliceOfN(rapid.Byte(), 1, maxID).Draw(t, "id")),
		Deadline: time.UnixMilli(rapid.Int64Range(-maxEpoch+1, maxEpoch-1).Draw(t, "deadline")).UTC(),
		From: Origin{
			Topic: text.Draw(t, "topic"), Partition: rapid.Int32Min(0).Draw(t, "partition"), Offset: rapid.Int64Min(0).Draw(t, "offset"),
		},
		Key: drawBytes(t, "key"), Value: drawBytes(t, "value"),
	}
	for range rapid.IntRange(0, 5).Draw(t, "headers") {
		m.Headers = append(m.Headers, Header{Key: text.Draw(t, "name"), Value: drawBytes(t, "header")})
	}
	return m
}

func TestAnyMessageRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMessage(t)
		got, err := Decode(want.Encode())
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, want, got)
	})
}

// FuzzDecode decodes frames, since base64 would hide the frames from the fuzzer, and also takes the
// same bytes as the text.
func FuzzDecode(f *testing.F) {
	m := full()
	frame, _ := base64.RawStdEncoding.DecodeString(m.Encode())
	for n := 0; n <= len(frame); n += 5 {
		f.Add(frame[:n])
	}
	f.Add(frame)
	f.Add([]byte(m.Encode()))
	f.Add(binary.AppendUvarint([]byte{frameVersion}, math.MaxUint64))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, text := range []string{string(raw), base64.RawStdEncoding.EncodeToString(raw)} {
			got, err := Decode(text)
			if err != nil {
				if diff := cmp.Diff(Message{}, got); diff != "" {
					t.Fatalf("beside an error (-want +got):\n%s", diff)
				}
				continue
			}
			again, err := Decode(got.Encode())
			if err != nil {
				t.Fatal(err)
			}
			wantMessage(t, got, again)
		}
	})
}

func TestTimerKey(t *testing.T) {
	for _, c := range []struct {
		name, id string
		itself   bool
	}{
		{"UUID", "3767d5c7-aced-45e5-91f1-3f7ad8205a3f", true},
		{"one character", "a", true},
		{"all that a key may have", "AZaz09._~-", true},
		{"longest", strings.Repeat("k", 128), true},
		{"dots within", "a..", true},
		{"reserved word in part", "batch1", true},
		{"an end like a hint, without a number", "a-0123456789abcdef", true},
		{"tilde first", "~", false},
		{"the key of another", TimerKey("an id"), false},
		{"space", "an id", false},
		{"slash", "a/b", false},
		{"not ASCII", "é", false},
		{"not UTF-8", "\xff", false},
		{"null byte", "\x00", false},
		{"references", "references", false},
		{"batch", "batch", false},
		{"dot", ".", false},
		{"dots", "..", false},
		{"another timer's id", "a-2-0123456789abcdef", false},
		{"too long for a message", strings.Repeat("k", 129), false},
		{"none", "", false},
	} {
		key := TimerKey(c.id)
		if (key == c.id) != c.itself {
			t.Errorf("%s: key of %q is %q", c.name, c.id, key)
		}
		wantKey(t, c.id, key)
	}
	if got, want := TimerKey(""), "~47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"; got != want { // stores hold this key, as with the frame
		t.Errorf("key of nothing is %s, want %s", got, want)
	}
}

// wantKey checks that the store and the API would take the key for itself.
func wantKey(t rapid.TB, id, key string) {
	t.Helper()
	if parsed, err := timer.ParseID(key); err != nil || parsed != (timer.ID{Key: key}) {
		t.Errorf("key of %q is %q, which is no key: %+v, %v", id, key, parsed, err)
	}
	if key != id && (len(key) != 44 || key[0] != '~') {
		t.Errorf("key of %q is %q, neither the id nor a hash", id, key)
	}
}

func TestTimerKeysDiffer(t *testing.T) {
	id := rapid.OneOf(
		rapid.StringMatching(`[a~.-]{1,3}`),
		rapid.Map(rapid.StringMatching(`[a~ ]{1,3}`), TimerKey),
		rapid.SampledFrom([]string{"batch", "references", "a-1-0000000000000000"}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, maxID), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		keyA, keyB := TimerKey(a), TimerKey(b)
		wantKey(t, a, keyA)
		if (keyA == keyB) != (a == b) {
			t.Fatalf("keys of %q and %q are %q and %q", a, b, keyA, keyB)
		}
	})
}
