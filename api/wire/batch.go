package wire

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

const (
	// maxBatch is how many timers a request may ask for.
	maxBatch = 1000
	// batchRoom is what a timer of a batch takes while the request is under way,
	// without its strings, and what its result takes, ignored members apart.
	batchRoom = 512
)

// Batch is what a request for many timers asks for, and the outcome.
type Batch struct {
	// Entries have an Err from the start if they are refused.
	Entries []timer.Creation
	ignored map[int][]string // by entry; JSON pointers
	outside []string         // those to members around the entries
}

// entryKey is the idempotency key of an entry. No request can have it, nor an
// entry of another batch, since a header holds no NUL.
func entryKey(key string, entry int) string {
	return key + "\x00" + strconv.Itoa(entry)
}

// entryPointer leads to what is in an entry.
func entryPointer(entry int, pointer string) string {
	return "/timers/" + strconv.Itoa(entry) + pointer
}

// Room is about what the request takes beside its body, and more than its answer.
func (b *Batch) Room() int {
	const escaped = 6 // bytes in JSON for one
	total := batchRoom * (1 + len(b.Entries))
	for _, pointer := range b.outside {
		total += escaped * len(pointer)
	}
	for _, pointers := range b.ignored {
		for _, pointer := range pointers {
			total += escaped * len(pointer)
		}
	}
	return total
}

// Outcome sums up what came of a batch.
type Outcome struct {
	Failed   int
	Replayed int
	// Unknown is an error that clients are not told, of several the first.
	Unknown  error
	Unknowns int
	// Unavailable is set if nothing was done for want of a store or of room, so that
	// the same request may succeed later as a whole.
	Unavailable error
}

// Judge sums up what has come of the entries.
func (b *Batch) Judge() (o Outcome) {
	busy := 0
	var overloaded, unreached error
	for i := range b.Entries {
		entry := &b.Entries[i]
		if entry.Err == nil {
			if entry.Receipt.Replayed {
				o.Replayed++
			}
			continue
		}
		o.Failed++
		p, known := ProblemOf(entry.Err)
		switch {
		case !known:
			if o.Unknowns++; o.Unknown == nil {
				o.Unknown = entry.Err
			}
		case p.Status != http.StatusServiceUnavailable:
		case p.Code == codeOverloaded:
			busy++
			overloaded = entry.Err
		default:
			busy++
			unreached = entry.Err
		}
	}
	if busy == len(b.Entries) {
		// That nothing was done is true only if it is of every entry.
		if o.Unavailable = unreached; unreached == nil {
			o.Unavailable = overloaded
		}
	}
	return o
}

// Render is the body of the answer.
func (b *Batch) Render(failed int) []byte {
	const typical = 192
	dst := make([]byte, 0, typical*(1+len(b.Entries)))
	dst = append(dst, `{"created":`...)
	dst = strconv.AppendInt(dst, int64(len(b.Entries)-failed), 10)
	dst = append(dst, `,"failed":`...)
	dst = strconv.AppendInt(dst, int64(failed), 10)
	dst = append(dst, `,"results":[`...)
	for i := range b.Entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = b.appendResult(dst, i)
	}
	dst = append(dst, ']')
	dst = appendIgnored(dst, b.outside)
	return append(dst, '}')
}

func (b *Batch) appendResult(dst []byte, i int) []byte {
	entry := &b.Entries[i]
	if entry.Err == nil {
		dst = appendReceipt(dst, &entry.Receipt)
		dst = appendIgnored(dst, b.ignored[i])
		if entry.Receipt.Replayed {
			dst = append(dst, `,"replayed":true`...)
		}
		return append(dst, '}')
	}
	p, _ := ProblemOf(entry.Err)
	if p.Pointer != nil {
		pointer := entryPointer(i, *p.Pointer)
		p.Pointer = &pointer
	}
	dst = append(dst, `{"error":`...)
	dst = p.appendPart(dst)
	return append(dst, '}')
}

// DecodeBatch reads the body of a request for many timers; key is its idempotency key,
// "" for none. The error is what is wrong with the body as a whole: it breaks
// JSON's grammar, nests more than maxParserDepth deep, or something around the
// entries is refused. What is wrong with what an entry says is the entry's Err; so
// are strings in it that could not be sent unchanged. The entries' bodies alias
// body.
func DecodeBatch(body []byte, key string) (Batch, error) {
	const short = 256 // bytes, of an entry
	d := batchDecoder{key: key}
	d.outer.readLaxly(body)
	d.batch.Entries = make([]timer.Creation, 0, min(maxBatch, 1+len(body)/short))
	if err := d.read(); err != nil {
		return Batch{}, err
	}
	return d.batch, nil
}

// batchDecoder takes the body apart with one scanner, outer, and reads one part
// after another with the decoder of single bodies. The former is lax, so that it
// finds where an entry ends that the latter refuses. It has passed over a part
// before that is read, so what is no JSON is never an entry's own error.
type batchDecoder struct {
	Decoder // of the part that was found last

	outer scanner
	key   string
	batch Batch
}

// next has the decoder begin to read the next part, which it returns: an entry, or
// the name or the value of a member around the entries.
func (d *batchDecoder) next() ([]byte, error) {
	first, next, err := d.outer.part()
	if err != nil {
		return nil, err
	}
	body := d.outer.body
	d.readStrictly(body, first, next)
	return body[first:next], nil
}

func (d *batchDecoder) read() error {
	if d.outer.blank() {
		return refuse("", "body-missing", "the body is empty; send a JSON object with timers, an array")
	}
	if !d.outer.open(jsontext.KindBeginObject) {
		return refuse("", "body-not-object", "the body is not a JSON object; send one with timers, an array")
	}
	for seen := false; ; {
		more, err := d.outer.more("", jsontext.KindEndObject)
		switch {
		case err != nil:
			return err
		case !more && !seen:
			return refuse("/timers", "timers-missing", "timers is missing; give an array of 1 to "+strconv.Itoa(maxBatch)+" timers")
		case !more:
			return d.outer.end()
		}
		known, err := d.name()
		switch {
		case err != nil:
			return err
		case !known:
			err = d.other()
		case seen:
			return duplicate("/timers")
		default:
			seen = true
			err = d.timers()
		}
		if err != nil {
			return err
		}
	}
}

// name reads the name of the next member and reports whether it is timers.
func (d *batchDecoder) name() (known bool, err error) {
	if _, err := d.next(); err != nil {
		return false, err
	}
	name, _, err := d.text("") // names are strings
	if err != nil || name == "timers" {
		return err == nil, err
	}
	d.ignored = d.batch.outside
	d.ignore("", name)
	d.batch.outside = d.ignored
	return false, nil
}

// other steps over the value of a member that is not read.
func (d *batchDecoder) other() error {
	if _, err := d.next(); err != nil {
		return err
	}
	return d.skip("")
}

func (d *batchDecoder) timers() error {
	const pointer = "/timers"
	if !d.outer.open(jsontext.KindBeginArray) {
		return d.outer.mistyped(pointer, "timers-type", "timers is not an array; give one of 1 to "+strconv.Itoa(maxBatch)+" timers")
	}
	for {
		more, err := d.outer.more(pointer, jsontext.KindEndArray)
		switch n := len(d.batch.Entries); {
		case err != nil:
			return err
		case !more && n == 0:
			return refuse(pointer, "timers-empty", "timers is empty; give an array of 1 to "+strconv.Itoa(maxBatch)+" timers")
		case !more:
			return nil
		case n == maxBatch:
			return refuse(pointer, "timers-too-many", "timers has more than "+strconv.Itoa(maxBatch)+" entries; send the rest in further requests")
		}
		raw, err := d.next()
		if err != nil {
			return err
		}
		d.element(raw)
	}
}

// element reads an entry, which is raw.
func (d *batchDecoder) element(raw []byte) {
	n := len(d.batch.Entries)
	d.batch.Entries = append(d.batch.Entries, timer.Creation{})
	entry := &d.batch.Entries[n]
	d.timer, d.ignored = timer.Timer{}, nil
	if entry.Err = d.timerObject(); entry.Err != nil {
		return
	}
	entry.Timer = d.timer
	if entry.Timer.ReplicationFactor == 0 {
		entry.Timer.ReplicationFactor = timer.DefaultReplicationFactor
	}
	if d.key != "" {
		entry.IdempotencyKey, entry.Body = entryKey(d.key, n), raw
	}
	d.keepIgnored(n)
}

func (d *batchDecoder) keepIgnored(entry int) {
	if len(d.ignored) == 0 {
		return
	}
	for i, pointer := range d.ignored {
		d.ignored[i] = entryPointer(entry, pointer)
	}
	if d.batch.ignored == nil {
		d.batch.ignored = map[int][]string{}
	}
	d.batch.ignored[entry] = d.ignored
}

func (d *batchDecoder) timerObject() error {
	if !d.open(jsontext.KindBeginObject) {
		return d.mistyped("", "body-not-object", "an entry of timers is not an object; send each timer as one")
	}
	return d.content()
}
