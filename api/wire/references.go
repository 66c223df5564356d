package wire

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

// maxReferences is how many references a request may name.
const maxReferences = 1000

// referencesDecoder reads {"IDs": [{"ID": …, "ReplicaIndex": …}]}, as strictly as Decoder reads
// timers. Unknown members have no effect.
type referencesDecoder struct {
	Decoder
	keys []string
}

// DecodeReferences reads the body of a request that drops references, and returns the keys of the
// timers.
func DecodeReferences(body []byte) ([]string, error) {
	var d referencesDecoder
	d.readStrictly(body, 0, len(body))
	if d.blank() {
		return nil, refuse("", "body-missing", "the body is empty; send a JSON object with IDs, an array")
	}
	if !d.open(jsontext.KindBeginObject) {
		return nil, refuse("", "body-not-object", "the body is not a JSON object; send one with IDs, an array")
	}
	seen, err := d.members("", []field{{"IDs", func(*Decoder) error { return d.list() }, false}})
	switch {
	case err != nil:
		return nil, err
	case seen == 0:
		return nil, refuse("/IDs", "references-type", "IDs is missing; give an array of objects with ID and ReplicaIndex")
	}
	return d.keys, d.end()
}

func (d *referencesDecoder) list() error {
	const pointer = "/IDs"
	if !d.open(jsontext.KindBeginArray) {
		return d.mistyped(pointer, "references-type", "IDs is not an array; give one of objects with ID and ReplicaIndex")
	}
	for {
		more, err := d.more(pointer, jsontext.KindEndArray)
		switch {
		case err != nil || !more:
			return err
		case len(d.keys) == maxReferences:
			return refuse(pointer, "references-too-many", "IDs has more than "+strconv.Itoa(maxReferences)+" entries; send the rest in further requests")
		}
		if err := d.reference(pointer + "/" + strconv.Itoa(len(d.keys))); err != nil {
			return err
		}
	}
}

func (d *referencesDecoder) reference(pointer string) error {
	const what = "an entry of IDs is not an object with ID, a timer's id, and ReplicaIndex, a whole number from 0 up"
	const idBit, all = 1, 3
	var id timer.ID
	seen, err := d.object(pointer, "references-entry", what, []field{
		{"ID", func(*Decoder) error {
			text, err := d.str(pointer+"/ID", "references-entry", what)
			if err != nil {
				return err
			}
			if id, err = timer.ParseID(text); err != nil {
				return refuse(pointer+"/ID", "references-entry", what)
			}
			return nil
		}, false},
		{"ReplicaIndex", func(*Decoder) error {
			text, err := d.numeral(pointer+"/ReplicaIndex", "references-entry", what)
			if err != nil {
				return err
			}
			if _, exact, err := scaleDecimal(text, 0); err != nil || !exact {
				return refuse(pointer+"/ReplicaIndex", "references-entry", what)
			}
			return nil
		}, false},
	})
	switch {
	case err != nil:
		return err
	case seen&idBit == 0:
		return refuse(pointer+"/ID", "references-entry", what)
	case seen != all:
		return refuse(pointer+"/ReplicaIndex", "references-entry", what)
	}
	d.keys = append(d.keys, id.Key)
	return nil
}

// numeral reads a number and returns the number's text, which is valid until the next call.
func (d *referencesDecoder) numeral(pointer, code, detail string) ([]byte, error) {
	text, ok, err := d.number(pointer)
	if !ok && err == nil {
		err = d.mistyped(pointer, code, detail)
	}
	return text, err
}
