package timer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Hint is a 64-bit Bloom filter of the shards that hold a timer's copies. Nobody relies on a hint:
// a filter of all ones does no harm, nor does a filter of zeros.
type Hint uint64

// hintBits is how many bits of the filter stand for one shard. Three bits keep the rate of false
// members near 1 % for four shards in 64 bits.
const hintBits = 3

// HintOf is the mask of a shard whose name has the given 64-bit hash: the three
// bits come from disjoint parts of the hash (Kirsch and Mitzenmacher 2006, with
// a step that is odd, so the bits differ).
func HintOf(hash uint64) Hint {
	first, step := hash&63, hash>>32&63|1
	var mask Hint
	for i := range uint64(hintBits) {
		mask |= 1 << ((first + i*step) & 63)
	}
	return mask
}

// Has reports whether every bit of mask is set.
func (h Hint) Has(mask Hint) bool { return h&mask == mask }

// Empty reports whether no shard can be a member.
func (h Hint) Empty() bool { return bits.OnesCount64(uint64(h)) < hintBits }

// MaxKeyLength is the longest key of a timer, in bytes.
const MaxKeyLength = 128

// ID is the name of a timer for clients: <key>-<rf>-<bloom>. A bare key is a valid ID too and has
// RF 0. A bare key of the form <16 hex>-<n>, as in Metaswitch's Chronos, has RF n.
type ID struct {
	Key  string // [A-Za-z0-9._~-]{1,128}
	RF   int    // the replication factor asked for at creation, 0 if not given
	Hint Hint   // where the copies were when the ID was made
}

// WithoutHint returns the ID for a site or a topology that the hint doesn't describe. An ID without a replication factor
// has one copy.
func (id ID) WithoutHint() ID {
	return ID{Key: id.Key, RF: max(id.RF, 1)}
}

// NewKey makes a key for a timer whose client chose no key: a UUIDv7 as 32 hexadecimal digits,
// which sorts by time of creation.
func NewKey() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// OnceKey is the key of the timer that requests with this idempotency key make. The idempotency key
// can't be read from the result.
func OnceKey(idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return "ik-" + hex.EncodeToString(sum[:16])
}

// String is the form for clients; a bare key if RF is 0.
func (id ID) String() string {
	if id.RF == 0 {
		return id.Key
	}
	return string(id.Append(make([]byte, 0, len(id.Key)+len("-16-")+hintDigits)))
}

// Append appends what String returns.
func (id ID) Append(b []byte) []byte {
	b = append(b, id.Key...)
	if id.RF == 0 {
		return b
	}
	b = append(strconv.AppendInt(append(b, '-'), int64(id.RF), 10), '-')
	var raw [hintDigits / 2]byte
	binary.BigEndian.PutUint64(raw[:], uint64(id.Hint))
	return hex.AppendEncode(b, raw[:])
}

const hintDigits = 16

// ParseID reads an ID. A text without the end -<rf>-<bloom>, with a replication factor from 1 to 16
// and 16 lower-case hexadecimal digits, is a bare key. A bare key of the form <16 hex>-<n>, with n
// from 1 to 16, has n as its RF. The error is an *InvalidError.
func ParseID(s string) (ID, error) {
	id := splitID(s)
	if id.RF == 0 {
		id.RF = referenceFactor(id.Key)
	}
	switch {
	case id.Key == "" || len(id.Key) > MaxKeyLength:
		return ID{}, Invalid("", "id-length", "a timer's id is 1 to %d characters, and what chronos appends to it", MaxKeyLength)
	case strings.ContainsFunc(id.Key, func(r rune) bool { return !keyRune(r) }):
		return ID{}, Invalid("", "id-characters", "a timer's id consists of A-Z a-z 0-9 . _ ~ -")
	case id.Key == "references" || id.Key == "batch":
		return ID{}, Invalid("", "id-reserved", "this id is reserved; choose another")
	case splitID(id.Key).RF != 0:
		// As a bare key the text would be taken for another timer's id.
		return ID{}, Invalid("", "id-suffix", "a key of your own must not end like what chronos appends to it (-<number>-<16 hex digits>); choose another")
	case id.Key == "." || id.Key == "..":
		return ID{}, Invalid("", "id-dots", "an id of dots alone can't stand in a path; choose another")
	}
	return id, nil
}

// ValidKey reports whether a key is a whole ID by itself, as a timer's key must be.
func ValidKey(key string) bool {
	id, err := ParseID(key)
	return err == nil && id.Key == key
}

func splitID(s string) ID {
	bare := ID{Key: s}
	rest, hint, ok := cutLast(s)
	if !ok || len(hint) != hintDigits || strings.ToLower(hint) != hint {
		return bare
	}
	bloom, err := strconv.ParseUint(hint, 16, 64)
	if err != nil {
		return bare
	}
	key, factor, ok := cutLast(rest)
	rf := readFactor(factor)
	if !ok || key == "" || rf == 0 {
		return bare
	}
	return ID{Key: key, RF: rf, Hint: Hint(bloom)}
}

// readFactor reads a replication factor; 0 if s is no replication factor.
func readFactor(s string) int {
	rf, err := strconv.Atoi(s)
	if err != nil || rf < 1 || rf > MaxReplicationFactor || strconv.Itoa(rf) != s {
		return 0
	}
	return rf
}

// referenceFactor is the replication factor in a key that has the form of an id of Metaswitch's
// Chronos, <16 hex>-<n>; 0 if the key has another form. The factor stays a part of the key: timers
// were stored under such keys before the factor counted, and must be found.
func referenceFactor(key string) int {
	const digits = 16
	if len(key) <= digits || key[digits] != '-' || strings.Trim(key[:digits], "0123456789abcdefABCDEF") != "" {
		return 0
	}
	return readFactor(key[digits+1:])
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func keyRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return r == '.' || r == '_' || r == '~' || r == '-'
}
