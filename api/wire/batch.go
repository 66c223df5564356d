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
	// batchRoom is the memory of a batch's timer and of the timer's result while the request is
	// under way. The timer's strings and ignored members don't count.
	batchRoom = 512
)

// Batch is a request for many timers, and the outcome.
type Batch struct {
	// Entries have an Err from the start if they are refused.
	Entries []timer.Creation
	ignored map[int][]string // by entry; JSON pointers
	outside []string         // JSON pointers to members around the entries
}

// entryKey is the idempotency key of an entry. No request and no entry of another batch can have
// the same key, since a header holds no NUL.
func entryKey(key string, entry int) string {
	return key + "\x00" + strconv.Itoa(entry)
}

// entryPointer leads to a place in an entry.
func entryPointer(entry int, pointer string) string {
	return "/timers/" + strconv.Itoa(entry) + pointer
}

// Room is about the memory that the request takes in addition to its body. Room is more than the
// answer takes.
func (b *Batch) Room() int {
	const escaped = 6 // bytes in JSON for a single byte
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

// Outcome sums up the outcome of a batch.
type Outcome struct {
	Failed   int
	Replayed int
	// Unknown is the first error that clients must not see.
	Unknown  error
	Unknowns int
	// Unavailable is set if nothing was done for lack of a store or of room. The whole request may
	// succeed later.
	Unavailable error
}

// Judge sums up the results of the entries.
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
		// The error may say that nothing was done only if nothing was done for any entry.
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

// DecodeBatch reads the body of a request for many timers; key is the request's idempotency key, ""
// for none. An error is about the body as a whole: the body breaks JSON's grammar, nests more than
// maxParserDepth deep, or has a refused member around the entries. A refused entry has an Err
// instead, for example for strings that could not be sent unchanged. The entries' bodies alias
// body.
func DecodeBatch(body []byte, key string, unknown Handling) (Batch, error) {
	const short = 256 // bytes, of an entry
	d := batchDecoder{key: key}
	d.handling = unknown
	d.outer.readLaxly(body)
	d.batch.Entries = make([]timer.Creation, 0, min(maxBatch, 1+len(body)/short))
	if err := d.read(); err != nil {
		return Batch{}, err
	}
	return d.batch, nil
}

// batchDecoder takes the body apart with the scanner outer, and reads each part with the decoder of
// single bodies. outer is lax, so outer finds the end of an entry that the decoder refuses. outer
// passes over a part before the decoder reads the part. A part that is no JSON is therefore never
// the error of an entry.
type batchDecoder struct {
	Decoder // of the part that was found last

	outer scanner
	key   string
	batch Batch
}

// next finds the next part, prepares the decoder for the part, and returns the part. A part is an
// entry, or the name or the value of a member around the entries.
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

// name reads the name of the next member and reports whether the name is timers.
func (d *batchDecoder) name() (known bool, err error) {
	if _, err := d.next(); err != nil {
		return false, err
	}
	name, _, err := d.text("") // names are strings
	if err != nil || name == "timers" {
		return err == nil, err
	}
	d.ignored = d.batch.outside
	err = d.unknown("", name)
	d.batch.outside = d.ignored
	return false, err
}

// other steps over the value of an unknown member.
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

// element reads the entry raw.
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
