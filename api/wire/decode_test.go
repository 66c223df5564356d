package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// decode decodes with a new decoder.
func decode(body []byte) (timer.Timer, []string, error) { return new(Decoder).Decode(body, Lenient) }

// understand is decode and a check that the body's parts go together.
func understand(body string) (timer.Timer, []string, error) {
	asked, ignored, err := decode([]byte(body))
	if err != nil {
		return asked, ignored, err
	}
	if asked.ReplicationFactor == 0 {
		asked.ReplicationFactor = timer.DefaultReplicationFactor
	}
	return asked, ignored, asked.Validate()
}

func TestDecodeAccepts(t *testing.T) {
	plain := timer.Timer{Interval: time.Second, Callback: timer.Callback{URI: "http://a/b"}}
	timed := func(interval, repeat time.Duration) timer.Timer {
		asked := plain
		asked.Interval, asked.RepeatFor = interval, repeat
		return asked
	}
	at := func(instant time.Time) timer.Timer {
		asked := plain
		asked.Interval, asked.At = 0, instant
		return asked
	}
	recurringAt := func(instant time.Time) timer.Timer {
		asked := timed(30*time.Second, time.Minute)
		asked.At = instant
		return asked
	}
	called := func(uri, opaque string) timer.Timer {
		asked := plain
		asked.Callback = timer.Callback{URI: uri, Opaque: opaque}
		return asked
	}
	replicated := plain
	replicated.ReplicationFactor = 16
	tagged := plain
	tagged.Tags = []timer.Tag{{Type: "CALL", Count: 3}, {Type: "naïve, =", Count: 1}}

	for name, tc := range map[string]struct {
		body    string
		timer   timer.Timer
		ignored []string
	}{
		"least":                 {body: apitest.WithHTTP(`"uri":"http://a/b"`), timer: plain},
		"white space":           {body: " \t\r\n" + strings.ReplaceAll(apitest.WithHTTP(`"uri" : "http://a/b"`), ",", " \n, ") + "\n ", timer: plain},
		"interval zero":         {body: apitest.WithCallback(`"timing":{"interval":0}`), timer: timed(0, 0)},
		"interval negative 0":   {body: apitest.WithCallback(`"timing":{"interval":-0.0}`), timer: timed(0, 0)},
		"interval rounded up":   {body: apitest.WithCallback(`"timing":{"interval":0.0001}`), timer: timed(time.Millisecond, 0)},
		"interval longest":      {body: apitest.WithCallback(`"timing":{"interval":3153600000}`), timer: timed(timer.MaxInterval, 0)},
		"recurring":             {body: apitest.WithCallback(`"timing":{"interval":0.3,"repeat-for":1E2}`), timer: timed(300*time.Millisecond, 100*time.Second)},
		"repeat-for zero":       {body: apitest.WithCallback(`"timing":{"interval":1,"repeat-for":0}`), timer: plain},
		"at":                    {body: apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00.25Z"}`), timer: at(time.Date(2030, 1, 31, 12, 0, 0, 250e6, time.UTC))},
		"at with offset":        {body: apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00+02:00"}`), timer: at(time.Date(2030, 1, 31, 10, 0, 0, 0, time.UTC))},
		"at rounded up":         {body: apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00.000000001Z"}`), timer: at(time.Date(2030, 1, 31, 12, 0, 0, 1e6, time.UTC))},
		"at rounded up, finest": {body: apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00.0000000000001Z"}`), timer: at(time.Date(2030, 1, 31, 12, 0, 0, 1e6, time.UTC))},
		"at with many zeros":    {body: apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00.0000000000000Z"}`), timer: at(time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC))},
		"at in the past":        {body: apitest.WithCallback(`"timing":{"at":"1999-01-31T12:00:00Z"}`), timer: at(time.Date(1999, 1, 31, 12, 0, 0, 0, time.UTC))},
		"at very far":           {body: apitest.WithCallback(`"timing":{"at":"9999-12-31T23:59:59.999Z"}`), timer: at(time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC))},
		"at in year 0":          {body: apitest.WithCallback(`"timing":{"at":"0000-01-01T00:00:00Z"}`), timer: at(time.UnixMilli(0).UTC())},
		"at before the epoch":   {body: apitest.WithCallback(`"timing":{"at":"0001-01-01T00:00:00Z"}`), timer: at(time.UnixMilli(0).UTC())},
		"at, recurring": {
			body:  apitest.WithCallback(`"timing":{"repeat-for":60,"interval":30,"at":"1999-01-31T12:00:00Z"}`),
			timer: recurringAt(time.Date(1999, 1, 31, 12, 0, 0, 0, time.UTC)),
		},
		"at with repeat-for 0":    {body: apitest.WithCallback(`"timing":{"repeat-for":0,"at":"1999-01-31T12:00:00Z"}`), timer: at(time.Date(1999, 1, 31, 12, 0, 0, 0, time.UTC))},
		"opaque":                  {body: apitest.WithHTTP(`"uri":"http://a/b","opaque":"{\"a\":[1]}\u0000\n"`), timer: called("http://a/b", "{\"a\":[1]}\x00\n")},
		"opaque empty":            {body: apitest.WithHTTP(`"uri":"http://a/b","opaque":""`), timer: plain},
		"all escapes":             {body: apitest.WithHTTP(`"uri":"http:\/\/a\u002Fb","opaque":"\"\\\/\b\f\n\r\t\u00e9\u20AC"`), timer: called("http://a/b", "\"\\/\b\f\n\r\té€")},
		"surrogate pair":          {body: apitest.WithHTTP(`"uri":"http://a/b","opaque":"\ud83d\ude00😀"`), timer: called("http://a/b", "😀😀")},
		"escaped name":            {body: apitest.WithHTTP(`"ur\u0069":"http://a/b"`), timer: plain},
		"replication factor":      {body: apitest.WithMore(`"reliability":{"replication-factor":16}`), timer: replicated},
		"whole by exponent":       {body: apitest.WithMore(`"reliability":{"replication-factor":1.6e1}`), timer: replicated},
		"reliability empty":       {body: apitest.WithMore(`"reliability":{}`), timer: plain},
		"statistics":              {body: apitest.WithMore(`"statistics":{"tag-info":[{"type":"CALL","count":3},{"type":"naïve, ="}]}`), timer: tagged},
		"statistics empty":        {body: apitest.WithMore(`"statistics":{"tag-info":[]}`), timer: plain},
		"interval null beside at": {body: apitest.WithCallback(`"timing":{"interval":null,"at":"2030-01-31T12:00:00.25Z"}`), timer: at(time.Date(2030, 1, 31, 12, 0, 0, 250e6, time.UTC))},
		"at null beside interval": {body: apitest.WithCallback(`"timing":{"interval":1,"at":null}`), timer: plain},
		"repeat-for null":         {body: apitest.WithCallback(`"timing":{"interval":1,"repeat-for":null}`), timer: plain},
		"opaque null":             {body: apitest.WithHTTP(`"uri":"http://a/b","opaque":null`), timer: plain},
		"reliability null":        {body: apitest.WithMore(`"reliability":null`), timer: plain},
		"replication-factor null": {body: apitest.WithMore(`"reliability":{"replication-factor":null}`), timer: plain},
		"statistics null":         {body: apitest.WithMore(`"statistics": null `), timer: plain},
		"tag-info null":           {body: apitest.WithMore(`"statistics":{"tag-info":null}`), timer: plain},
		"count null":              {body: apitest.WithMore(`"statistics":{"tag-info":[{"type":"CALL","count":null}]}`), timer: timer.Timer{Interval: time.Second, Callback: plain.Callback, Tags: []timer.Tag{{Type: "CALL", Count: 1}}}},
		"internal members": {
			body:    `{"timing":{"interval":1,"start-time-delta":-200,"sequence-number":0},"callback":{"http":{"uri":"http://a/b"}},"reliability":{"cluster-view-id":"x","replicas":["a","b"],"sites":[]}}`,
			timer:   plain,
			ignored: []string{"/timing/start-time-delta", "/timing/sequence-number", "/reliability/cluster-view-id", "/reliability/replicas", "/reliability/sites"},
		},
		"unknown members": {
			body:    apitest.WithMore(`"a/b~c":{"x":[1,-2.5e+3,{"":null}],"y":true},"d":"\ud83d\ude00","d":false,"Timing":null,"callbac\u212a":7,"statistics":{"tag-info":[{"type":"T","color":"red"}]}`),
			timer:   timer.Timer{Interval: time.Second, Callback: plain.Callback, Tags: []timer.Tag{{Type: "T", Count: 1}}},
			ignored: []string{"/a~1b~0c", "/d", "/Timing", "/callbac\u212a", "/statistics/tag-info/0/color"},
		},
		"unknown member with a long name": {body: apitest.WithMore(`"` + strings.Repeat("n", maxIgnoredName+1) + `":1`), timer: plain},
		"nested as deep as may be":        {body: apitest.WithMore(`"d":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)), timer: plain, ignored: []string{"/d"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ignored, err := decode([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.timer, asked); diff != "" {
				t.Errorf("timer (-want +have):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ignored, ignored); diff != "" {
				t.Errorf("ignored (-want +have):\n%s", diff)
			}
		})
	}
}

// refusals are bodies that are refused, with code and pointer.
func refusals() map[string][3]string {
	const interval, repeat, at = "/timing/interval", "/timing/repeat-for", "/timing/at"
	const uri, opaque, rf = "/callback/http/uri", "/callback/http/opaque", "/reliability/replication-factor"
	const tags, entry = "/statistics/tag-info", "/statistics/tag-info/0"
	timing := func(members string) string { return apitest.WithCallback(`"timing":{` + members + `}`) }
	all := map[string][3]string{
		"empty":                  {"", "body-missing", ""},
		"blank":                  {" \n", "body-missing", ""},
		"null":                   {"null", "body-not-object", ""},
		"array":                  {"[]", "body-not-object", ""},
		"string":                 {`"a"`, "body-not-object", ""},
		"no JSON":                {"interval=3", "body-not-object", ""},
		"a mark within":          {"{\uFEFF}", "body-syntax", ""},
		"cut off":                {apitest.WithHTTP(`"uri":"http://a/b"`)[:30], "body-syntax", ""},
		"trailing comma":         {apitest.WithHTTP(`"uri":"http://a/b",`), "body-syntax", ""},
		"no comma":               {apitest.WithHTTP(`"uri":"http://a/b" "opaque":""`), "body-syntax", ""},
		"no colon":               {apitest.WithHTTP(`"uri" "http://a/b"`), "body-syntax", ""},
		"bare name":              {`{timing:{}}`, "body-syntax", ""},
		"single quotes":          {`{'timing':{}}`, "body-syntax", ""},
		"comment":                {apitest.WithMore(`/* */"a":1`), "body-syntax", ""},
		"NUL":                    {"{\x00}", "body-syntax", ""},
		"something after":        {apitest.WithHTTP(`"uri":"http://a/b"`) + "{}", "body-trailing", ""},
		"control character":      {apitest.WithHTTP("\"uri\":\"http://a/b\n\""), "body-syntax", ""},
		"bad escape":             {apitest.WithHTTP(`"uri":"http:\x"`), "body-syntax", ""},
		"short escape":           {apitest.WithHTTP(`"uri":"\u12"`), "body-syntax", ""},
		"unended escape":         {`{"\`, "body-syntax", ""},
		"array for a name":       {apitest.WithMore(`[]:1`), "body-syntax", ""},
		"array cut off":          {apitest.WithMore(`"statistics":{"tag-info":[`), "body-syntax", ""},
		"array closed wrongly":   {apitest.WithMore(`"statistics":{"tag-info":[}}`), "body-syntax", ""},
		"member without value":   {`{"timing":}`, "body-syntax", ""},
		"comma first":            {`{,"timing":{}}`, "body-syntax", ""},
		"two commas":             {apitest.WithMore(`,"a":1`), "body-syntax", ""},
		"number cut off":         {apitest.WithMore(`"a":1e`), "body-syntax", ""},
		"comma after the object": {apitest.WithHTTP(`"uri":"http://a/b"`) + " ,", "body-trailing", ""},
		"form feed":              {apitest.WithMore("\"a\":\f1"), "body-syntax", ""},
		"UTF-8 broken off":       {apitest.WithMore("\"a\":\"\xe2\x82\""), "string-utf8", ""},
		"not UTF-8 outside":      {"{\xff}", "string-utf8", ""},
		"overlong UTF-8":         {apitest.WithMore("\"a\":\"\xc0\x80\""), "string-utf8", ""},
		"ignored half a pair":    {apitest.WithMore(`"a":{"b":"\ud800"}`), "string-surrogate", ""},
		"name with half a pair":  {apitest.WithMore(`"\udfff":1`), "string-surrogate", ""},
		"pair cut off":           {apitest.WithMore(`"a":"\ud83d\ude"`), "string-surrogate", ""},
		"escape outside":         {`{\u0041:1}`, "body-syntax", ""},
		"objects too deep":       {apitest.WithMore(`"a":` + strings.Repeat(`{"a":`, maxDepth+1) + "1" + strings.Repeat("}", maxDepth+1)), "body-depth", ""},
		"statistics true":        {apitest.WithMore(`"statistics":true`), "statistics-type", "/statistics"},
		"tag-info true":          {apitest.WithMore(`"statistics":{"tag-info":true}`), "tag-info-type", tags},
		"tag null":               {apitest.WithMore(`"statistics":{"tag-info":[null]}`), "tag-info-type", entry},
		"tag type null":          {apitest.WithMore(`"statistics":{"tag-info":[{"type":null}]}`), "tag-info", entry + "/type"},
		"tag count true":         {apitest.WithMore(`"statistics":{"tag-info":[{"type":"A","count":true}]}`), "tag-info", entry + "/count"},
		"tag type twice":         {apitest.WithMore(`"statistics":{"tag-info":[{"type":"A","type":"B"}]}`), "member-duplicate", entry + "/type"},
		"factor true":            {apitest.WithMore(`"reliability":{"replication-factor":true}`), "replication-factor-type", rf},
		"factor twice":           {apitest.WithMore(`"reliability":{"replication-factor":2,"replication-factor":2}`), "member-duplicate", rf},
		"callback null":          {`{"timing":{"interval":1},"callback":null}`, "callback-type", "/callback"},
		"uri null":               {apitest.WithHTTP(`"uri":null`), "uri-type", uri},
		"opaque twice":           {apitest.WithHTTP(`"uri":"http://a/b","opaque":"","opaque":""`), "member-duplicate", opaque},
		"repeat-for true":        {timing(`"interval":1,"repeat-for":true`), "repeat-for-type", repeat},
		"bad literal":            {apitest.WithMore(`"a":nul`), "body-syntax", ""},
		"too deep":               {apitest.WithMore(`"a":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)), "body-depth", ""},
		"timing missing":         {`{"callback":{"http":{"uri":"http://a/b"}}}`, "timing-missing", "/timing"},
		"timing null":            {apitest.WithCallback(`"timing":null`), "timing-type", "/timing"},
		"timing twice":           {apitest.WithMore(`"timing":{"interval":2}`), "member-duplicate", "/timing"},
		"no interval":            {timing(`"repeat-for":1`), "interval-missing", interval},
		"interval string":        {timing(`"interval":"1"`), "interval-type", interval},
		"interval NaN":           {timing(`"interval":NaN`), "body-syntax", ""},
		"interval -Infinity":     {timing(`"interval":-Infinity`), "body-syntax", ""},
		"interval with 0 before": {timing(`"interval":01`), "body-syntax", ""},
		"interval with plus":     {timing(`"interval":+1`), "body-syntax", ""},
		"interval point first":   {timing(`"interval":.5`), "body-syntax", ""},
		"interval point last":    {timing(`"interval":5.}`), "body-syntax", ""},
		"interval hexadecimal":   {timing(`"interval":0x10`), "body-syntax", ""},
		"interval twice":         {timing(`"interval":1,"interv\u0061l":1`), "member-duplicate", interval},
		"interval negative":      {timing(`"interval":-0.0001`), "interval-negative", interval},
		"interval over 100 y":    {timing(`"interval":3153600000.0001`), "interval-too-long", interval},
		"interval vast":          {timing(`"interval":1e999999999`), "interval-too-long", interval},
		"repeat-for negative":    {timing(`"interval":1,"repeat-for":-1e999999999`), "repeat-for-negative", repeat},
		"repeat-for vast":        {timing(`"interval":1,"repeat-for":1e12`), "repeat-for-too-long", repeat},
		"repeat-for bool":        {timing(`"interval":1,"repeat-for":true`), "repeat-for-type", repeat},
		"at and interval":        {timing(`"interval":0,"at":"2030-01-31T12:00:00Z"`), "at-and-interval", "/timing"},
		"at number":              {timing(`"at":1700000000`), "at-type", at},
		"at without offset":      {timing(`"at":"2030-01-31T12:00:00"`), "at-malformed", at},
		"at with comma":          {timing(`"at":"2030-01-31T12:00:00,5Z"`), "at-malformed", at},
		"at no such day":         {timing(`"at":"2030-02-31T12:00:00Z"`), "at-malformed", at},
		"at after 9999":          {timing(`"at":"9999-12-31T23:59:59.9999Z"`), "at-too-late", at},
		"at after 9999 in UTC":   {timing(`"at":"9999-12-31T23:59:59-00:01"`), "at-too-late", at},
		"at with another escape": {timing(`"at":"\ud800"`), "string-surrogate", at},
		"at null":                {timing(`"at":null`), "interval-missing", interval},
		"interval null":          {timing(`"interval":null`), "interval-missing", interval},
		"both null":              {timing(`"interval":null,"at":null`), "interval-missing", interval},
		"no null":                {timing(`"interval":nul`), "body-syntax", ""},
		"null twice":             {timing(`"interval":1,"repeat-for":null,"repeat-for":null`), "member-duplicate", repeat},
		"null and a value":       {timing(`"interval":null,"interval":1`), "member-duplicate", interval},
		"at empty":               {timing(`"at":""`), "at-malformed", at},
		"at short":               {timing(`"at":"2030-01-31T12:00:00"`), "at-malformed", at},
		"at with short hour":     {timing(`"at":"2030-01-31T1:00:00Z"`), "at-malformed", at},
		"at with vast offset":    {timing(`"at":"2030-01-31T12:00:00+24:00"`), "at-malformed", at},
		"at with other offset":   {timing(`"at":"2030-01-31T12:00:00+01:60"`), "at-malformed", at},
		"callback missing":       {`{"timing":{"interval":1}}`, "callback-missing", "/callback"},
		"callback string":        {`{"timing":{"interval":1},"callback":"http://a/b"}`, "callback-type", "/callback"},
		"callback empty":         {`{"timing":{"interval":1},"callback":{}}`, "callback-kind", "/callback"},
		"callback unknown":       {`{"timing":{"interval":1},"callback":{"smtp":{}}}`, "callback-kind", "/callback"},
		"callbacks of two kinds": {`{"timing":{"interval":1},"callback":{"http":{"uri":"http://a/b"},"kafka":{}}}`, "callback-kind", "/callback"},
		"callback twice":         {`{"timing":{"interval":1},"callback":{"http":{},"http":{}}}`, "member-duplicate", "/callback/http"},
		"http null":              {`{"timing":{"interval":1},"callback":{"http":null}}`, "callback-http-type", "/callback/http"},
		"uri number":             {apitest.WithHTTP(`"uri":1`), "uri-type", uri},
		"uri not UTF-8":          {apitest.WithHTTP("\"uri\":\"http://a/\xff\""), "string-utf8", uri},
		"opaque object":          {apitest.WithHTTP(`"uri":"http://a/b","opaque":{}`), "opaque-type", opaque},
		"opaque not UTF-8":       {apitest.WithHTTP("\"uri\":\"http://a/b\",\"opaque\":\"\xed\xa0\x80\""), "string-utf8", opaque},
		"opaque half a pair":     {apitest.WithHTTP(`"uri":"http://a/b","opaque":"x\ud800"`), "string-surrogate", opaque},
		"opaque other half":      {apitest.WithHTTP(`"uri":"http://a/b","opaque":"\udc00\ud800"`), "string-surrogate", opaque},
		"opaque two first halfs": {apitest.WithHTTP(`"uri":"http://a/b","opaque":"\ud800\ud800"`), "string-surrogate", opaque},
		"name not UTF-8":         {apitest.WithMore("\"\xff\":1"), "string-utf8", ""},
		"ignored not UTF-8":      {apitest.WithMore("\"a\":[\"\xff\"]"), "string-utf8", ""},
		"reliability string":     {apitest.WithMore(`"reliability":"2"`), "reliability-type", "/reliability"},
		"factor string":          {apitest.WithMore(`"reliability":{"replication-factor":"2"}`), "replication-factor-type", rf},
		"statistics array":       {apitest.WithMore(`"statistics":[]`), "statistics-type", "/statistics"},
		"tag-info object":        {apitest.WithMore(`"statistics":{"tag-info":{}}`), "tag-info-type", tags},
		"tag string":             {apitest.WithMore(`"statistics":{"tag-info":["CALL"]}`), "tag-info-type", entry},
		"tag without type":       {apitest.WithMore(`"statistics":{"tag-info":[{"count":1}]}`), "tag-info", entry + "/type"},
		"tag with empty type":    {apitest.WithMore(`"statistics":{"tag-info":[{"type":""}]}`), "tag-info", entry + "/type"},
		"tag with number type":   {apitest.WithMore(`"statistics":{"tag-info":[{"type":"A"},{"type":7}]}`), "tag-info", tags + "/1/type"},
		"tag count string":       {apitest.WithMore(`"statistics":{"tag-info":[{"type":"A","count":"1"}]}`), "tag-info", entry + "/count"},
		"tags without comma":     {apitest.WithMore(`"statistics":{"tag-info":[{"type":"A"}{"type":"B"}]}`), "body-syntax", ""},
	}
	for members, refusal := range memberRefusals() {
		all[members] = [3]string{apitest.WithHTTP(`"uri":"http://a/b",` + members), refusal[0], "/callback/http/" + refusal[1]}
	}
	for _, expires := range []string{"0", "-1", `"300"`, "3153600000.001", "1e400"} {
		all["expires "+expires] = [3]string{timing(`"interval":1,"expires-after":` + expires), "expires-range", "/timing/expires-after"}
	}
	for _, factor := range []string{"0", "17", "-1", "1.5", "1e99", "0.1"} {
		all["factor "+factor] = [3]string{apitest.WithMore(`"reliability":{"replication-factor":` + factor + `}`), "replication-factor-range", rf}
	}
	for _, count := range []string{"0", "-1", "1.5", "2147483648"} {
		all["count "+count] = [3]string{apitest.WithMore(`"statistics":{"tag-info":[{"type":"A","count":` + count + `}]}`), "tag-info", entry + "/count"}
	}
	return all
}

// memberRefusals are members of http that are refused, with code and the end of the pointer.
func memberRefusals() map[string][2]string {
	many := strings.Repeat(`"X-%d":"",`, timer.MaxHeaders+1)
	for i := range timer.MaxHeaders + 1 {
		many = strings.Replace(many, "%d", strconv.Itoa(i), 1)
	}
	long := `"A":"` + strings.Repeat("v", 4<<10) + `"`
	long += strings.Replace(","+long, "A", "B", 1) + strings.Replace(","+long, "A", "C", 1) + strings.Replace(","+long, "A", "D", 1)
	return map[string][2]string{
		`"method":""`:                        {"method-unknown", "method"},
		`"method":1`:                         {"method-unknown", "method"},
		`"headers":[]`:                       {"headers-type", "headers"},
		`"headers":"X-A: b"`:                 {"headers-type", "headers"},
		`"headers":{"X-A":1}`:                {"headers-type", "headers/X-A"},
		`"headers":{"X-A":null}`:             {"headers-type", "headers/X-A"},
		`"headers":{"X-A":["b"]}`:            {"headers-type", "headers/X-A"},
		`"headers":{"X-A":"\ud800"}`:         {"string-surrogate", "headers/X-A"},
		`"headers":{"X A":"b"}`:              {"header-name", "headers"},
		`"headers":{"":"b"}`:                 {"header-name", "headers"},
		`"headers":{"X-A":"b","x-a":"c"}`:    {"header-name", "headers"},
		`"headers":{"X-A":"b","X-A":"b"}`:    {"header-name", "headers"},
		`"headers":{"X-A":"b\r\nc"}`:         {"header-value", "headers/X-A"},
		`"headers":{"X~B":" b"}`:             {"header-value", "headers/X~0B"},
		`"headers":{"Host":"b"}`:             {"header-reserved", "headers/Host"},
		`"headers":{"Cookie":"***"}`:         {"header-redacted", "headers/Cookie"},
		`"headers":{` + many + `"X-A":"b"}`:  {"headers-long", "headers"},
		`"headers":{` + long + `}`:           {"headers-long", "headers"},
		`"headers":{"X-A":"b"},"headers":{}`: {"member-duplicate", "headers"},
		`"timeout":0`:                        {"timeout-range", "timeout"},
		`"timeout":-1`:                       {"timeout-range", "timeout"},
		`"timeout":1e400`:                    {"timeout-range", "timeout"},
		`"timeout":"2"`:                      {"timeout-range", "timeout"},
		`"retry":5`:                          {"retry-range", "retry"},
		`"retry":{"attempts":0}`:             {"retry-range", "retry/attempts"},
		`"retry":{"attempts":1.5}`:           {"retry-range", "retry/attempts"},
		`"retry":{"attempts":101}`:           {"retry-range", "retry/attempts"},
		`"retry":{"attempts":"5"}`:           {"retry-range", "retry/attempts"},
		`"retry":{"first":-1}`:               {"retry-range", "retry/first"},
		`"retry":{"factor":true}`:            {"retry-range", "retry/factor"},
		`"retry":{"longest":1e99}`:           {"retry-range", "retry/longest"},
		`"retry":{"first":1,"first":1}`:      {"member-duplicate", "retry/first"},
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, tc := range refusals() {
		t.Run(name, func(t *testing.T) {
			_, _, err := decode([]byte(tc[0]))
			var refused *timer.InvalidError
			if !errors.As(err, &refused) {
				t.Fatalf("have %v, want an InvalidError", err)
			}
			if refused.Code != tc[1] || refused.Pointer != tc[2] {
				t.Errorf("have %s at %q, want %s at %q (%s)", refused.Code, refused.Pointer, tc[1], tc[2], refused.Detail)
			}
		})
	}
}

// A decoder that has read earlier bodies, even refused bodies, reads the next body like a new
// decoder.
func TestDecodersAreReused(t *testing.T) {
	good := apitest.WithMore(`"a":1,"reliability":{"replication-factor":3},"statistics":{"tag-info":[{"type":"A","count":2},{"type":"B"}]}`)
	var reused Decoder
	for name, tc := range refusals() {
		for _, body := range []string{tc[0], good, apitest.Simple} {
			asked, ignored, err := reused.Decode([]byte(body), Lenient)
			wantTimer, wantIgnored, wantErr := decode([]byte(body))
			if diff := cmp.Diff([]any{wantTimer, wantIgnored, wantErr}, []any{asked, ignored, err}); diff != "" {
				t.Fatalf("%s: %.100s (-want +have):\n%s", name, body, diff)
			}
		}
	}
	if reused.body != nil || reused.source.Len() != 0 || reused.source.Cap() != 0 {
		t.Error("the decoder keeps the last body")
	}
}

func TestDecodeListsFewIgnored(t *testing.T) {
	var members []string
	for i := range 100 {
		members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
	}
	_, ignored, err := decode([]byte(apitest.WithMore(strings.Join(members, ","))))
	if err != nil || len(ignored) != maxIgnored {
		t.Fatalf("have %d ignored members, %v; want %d", len(ignored), err, maxIgnored)
	}
}

func TestDecodeCopies(t *testing.T) {
	body := []byte(apitest.WithMore(`"opa":1,"statistics":{"tag-info":[{"type":"CALL"}]}`))
	asked, ignored, err := decode(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'X'
	}
	if asked.Callback.URI != "http://a/b" || asked.Tags[0].Type != "CALL" || ignored[0] != "/opa" {
		t.Errorf("what was decoded changes with the body: %+v, %q", asked, ignored)
	}
}
