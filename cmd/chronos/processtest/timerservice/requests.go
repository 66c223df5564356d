package timerservice

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// identityParts are the statements of the API about the IDs of timers: the allowed IDs and
// the effect of every request.
func identityParts() []part {
	return []part{
		{"update replaces the timer", updateReplaces},
		{"update makes a timer recur", updateRecurs},
		{"update takes the ID of the answer and the first one", updateChain},
		{"delete takes the ID of the answer to an update", deleteAfterUpdate(true)},
		{"delete takes the first ID after an update", deleteAfterUpdate(false)},
		{"update of an unknown timer creates it", chosenIDs},
		{"delete takes an ID that the client chose", deleteChosen},
		{"deleted timer does not pop", deleteOne},
		{"deleted recurring timer does not pop", deleteRecurring},
		{"recurring timer deleted at a pop does not pop again", deleteAtPop},
		{"delete may be repeated", deleteTwice},
		{"delete of an unknown timer succeeds", deleteUnknown},
		{"delete ignores a body", deleteWithBody},
	}
}

func updateReplaces(b *bench) {
	id, _ := b.create(OneShot("2", b.url+"/old", "old"))
	_, when := b.update(id, OneShot("3", b.url+popPath, "new"))
	b.t.Parallel()
	pop := b.popTimes(popPath, when, 3*time.Second, 1)[0]
	if string(pop.Body) != "new" {
		b.t.Errorf("body %q, want the one of the update", pop.Body)
	}
	b.noMoreThan("/old", 0, time.Now())
}

func updateRecurs(b *bench) {
	id, _ := b.create(OneShot("2", b.url+"/old", "old"))
	_, when := b.update(id, Recurring("1", "2", b.url+popPath, "new"))
	b.t.Parallel()
	b.popTimes(popPath, when, time.Second, 2)
	b.noMoreThan("/old", 0, time.Now())
}

func updateChain(b *bench) {
	first, _ := b.create(OneShot("2", b.url+"/old", "1"))
	second, _ := b.update(first, OneShot("2", b.url+"/old", "2"))
	b.update(second, OneShot("2", b.url+"/old", "3"))
	_, when := b.update(first, OneShot("2", b.url+popPath, "4"))
	b.t.Parallel()
	b.popTimes(popPath, when, 2*time.Second, 1)
	b.noMoreThan("/old", 0, time.Now())
}

func deleteAfterUpdate(useNew bool) func(*bench) {
	return func(b *bench) {
		id, _ := b.create(OneShot("2", b.url+popPath, "old"))
		newID, when := b.update(id, OneShot("2", b.url+popPath, "new"))
		if useNew {
			id = newID
		}
		b.remove(id)
		b.t.Parallel()
		b.noMoreThan(popPath, 0, when.answered.Add(2*time.Second+lateness))
	}
}

// chosenIDs tries spellings of IDs that clients would choose; the API has no rule for the
// spelling.
func chosenIDs(b *bench) {
	prefixes := []string{"", "0123456789abcdef", "registration-", "alice-phone-", "call_7.", "X"}
	whens := make([]request, 0, len(prefixes))
	for i, prefix := range prefixes {
		_, when := b.update(unusedID(prefix), OneShot("1", b.url+popPath+"/"+strconv.Itoa(i), prefix))
		whens = append(whens, when)
	}
	b.t.Parallel()
	for i, when := range whens {
		b.popTimes(popPath+"/"+strconv.Itoa(i), when, time.Second, 1)
	}
}

func deleteChosen(b *bench) {
	timer := OneShot("2", b.url+popPath, "chosen")
	chosen := unusedID("chosen-")
	b.update(chosen, timer)
	b.remove(chosen)
	answered, when := b.update(unusedID("chosen-"), timer)
	b.remove(answered)
	b.t.Parallel()
	b.noMoreThan(popPath, 0, when.answered.Add(2*time.Second+lateness))
}

// updateAfterEnd refreshes a timer at its last pop, like a client that acts on the pop. The
// client doesn't know whether the timer still exists.
func updateAfterEnd(b *bench) {
	id, when := b.create(Recurring("1", "1", b.url+"/old", "first"))
	b.waitFor(when.answered.Add(time.Second+lateness), func() bool { return len(b.receiver.Pops("/old")) > 0 })
	newID, when := b.update(id, Recurring("1", "1", b.url+popPath, "second"))
	b.t.Parallel()
	b.popTimes(popPath, when, time.Second, 1)
	b.noMoreThan("/old", 1, time.Now())
	b.remove(newID)
	b.remove(id)
}

func deleteOne(b *bench) {
	id, when := b.create(OneShot("2", b.url+popPath, "never"))
	b.remove(id)
	b.t.Parallel()
	b.noMoreThan(popPath, 0, when.answered.Add(2*time.Second+lateness))
}

func deleteRecurring(b *bench) {
	id, when := b.create(Recurring("2", "6", b.url+popPath, "never"))
	b.remove(id)
	b.t.Parallel()
	b.noMoreThan(popPath, 0, when.answered.Add(4*time.Second+lateness))
}

// deleteAtPop deletes as soon as the first pop has come, even before the parallel rest of the
// test begins.
func deleteAtPop(b *bench) {
	id, when := b.create(Recurring("2", "6", b.url+popPath, "once"))
	deleted := make(chan error, 1)
	go func() {
		b.waitFor(when.answered.Add(2*time.Second+lateness), func() bool { return len(b.receiver.Pops(popPath)) > 0 })
		deleted <- b.client.Delete(b.t.Context(), id)
	}()
	b.t.Parallel()
	if err := <-deleted; err != nil {
		b.t.Fatalf("delete: %v", err)
	}
	b.popTimes(popPath, when, 2*time.Second, 1)
}

func deleteTwice(b *bench) {
	id, when := b.create(OneShot("2", b.url+popPath, "never"))
	for range 3 {
		b.remove(id)
	}
	b.t.Parallel()
	b.noMoreThan(popPath, 0, when.answered.Add(2*time.Second+lateness))
	b.remove(id)
}

func deleteUnknown(b *bench) {
	b.t.Parallel()
	b.remove(unusedID(""))
	b.remove(unusedID("unknown-"))
}

func deleteWithBody(b *bench) {
	id, when := b.create(OneShot("2", b.url+popPath, "never"))
	answer := b.send(http.MethodDelete, "/timers/"+id, `{"nothing": "of interest"`)
	b.t.Parallel()
	if answer.Status != http.StatusCreated {
		b.t.Errorf("status %d, want 201", answer.Status)
	}
	b.noMoreThan(popPath, 0, when.answered.Add(2*time.Second+lateness))
}

// requestParts are the statements of the API about the body of a request that sets a timer.
func requestParts() []part {
	return []part{
		{"refuses a body that is no JSON object", refuse(notJSON)},
		{"refuses a timer without an interval", refuse(noInterval)},
		{"refuses a timer without a known callback", refuse(noCallback)},
		{"refuses a count that is no positive integer", refuse(badCounts)},
		{"refused update leaves the timer alone", refusedUpdate},
		{"takes any replication factor", replicationFactors},
		{"replication factor stays the same on an update", replicationOnUpdate},
		{"takes tags with and without a count", tags},
	}
}

// refuse checks that all bodies are refused, for a new timer and in an update. The function
// bodies gets a callback URI.
func refuse(bodies func(uri string) []string) func(*bench) {
	return func(b *bench) {
		for _, body := range bodies(b.url + popPath) {
			b.refused(http.MethodPost, "/timers", body)
			b.refused(http.MethodPut, "/timers/"+unusedID(""), body)
		}
		until := time.Now().Add(time.Second + lateness)
		b.t.Parallel()
		b.noMoreThan(popPath, 0, until)
	}
}

func notJSON(uri string) []string {
	return []string{
		"",
		"interval=1&uri=" + uri,
		`{"timing": {"interval": 1}, "callback": {"http": {"uri": "` + uri + `", "opaque": ""}}`,
		`{timing: {interval: 1}, callback: {http: {uri: "` + uri + `", opaque: ""}}}`,
		"[]",
		"1",
	}
}

func noInterval(uri string) []string {
	callback := fmt.Sprintf(`"callback": {"http": {"uri": %q, "opaque": "x"}}`, uri)
	return []string{
		`{` + callback + `}`,
		`{"timing": {}, ` + callback + `}`,
		`{"timing": {"repeat-for": 2}, ` + callback + `}`,
		`{"timing": {"interval": null}, ` + callback + `}`,
		`{"timing": {"interval": "soon"}, ` + callback + `}`,
		`{"interval": 1, ` + callback + `}`,
	}
}

func noCallback(uri string) []string {
	return []string{
		`{"timing": {"interval": 1}}`,
		fmt.Sprintf(`{"timing": {"interval": 1}, "callback": {"https": {"uri": %q, "opaque": "x"}}}`, uri),
		`{"timing": {"interval": 1}, "callback": {"smtp": {"to": "a@example.com", "opaque": "x"}}}`,
		`{"timing": {"interval": 1}, "callback": {"http": {"opaque": "x"}}}`,
		fmt.Sprintf(`{"timing": {"interval": 1}, "callback": %q}`, uri),
	}
}

func badCounts(uri string) []string {
	var bodies []string
	for _, count := range []string{"0", "-1", "1.5", `"two"`} {
		bodies = append(bodies, fmt.Sprintf(
			`{"timing": {"interval": 1}, "callback": {"http": {"uri": %q, "opaque": "x"}}, `+
				`"statistics": {"tag-info": [{"type": "CALL", "count": %s}]}}`, uri, count))
	}
	return bodies
}

func refusedUpdate(b *bench) {
	id, when := b.create(OneShot("2", b.url+popPath, "kept"))
	for _, body := range noInterval(b.url + "/refused") {
		b.refused(http.MethodPut, "/timers/"+id, body)
	}
	b.t.Parallel()
	b.popTimes(popPath, when, 2*time.Second, 1)
	b.noMoreThan("/refused", 0, time.Now())
}

// replicationFactors tries factors up to 16, the greatest factor of the service. A factor
// beyond the cluster counts as the number of the cluster's nodes. The API names no limit.
func replicationFactors(b *bench) {
	factors := []int{1, 2, 3, 16}
	whens := make([]request, 0, len(factors))
	for _, factor := range factors {
		timer := OneShot("1", b.url+popPath+"/"+strconv.Itoa(factor), "x")
		timer.Reliability = &Reliability{ReplicationFactor: factor}
		_, when := b.create(timer)
		whens = append(whens, when)
	}
	b.t.Parallel()
	for i, factor := range factors {
		b.popTimes(popPath+"/"+strconv.Itoa(factor), whens[i], time.Second, 1)
	}
}

// replicationOnUpdate sends the same factor, no factor and a different factor. The API does
// not say whether a different factor is ignored or refused. The service may do either, as
// long as the timer still pops.
func replicationOnUpdate(b *bench) {
	timer := OneShot("2", b.url+popPath, "x")
	timer.Reliability = &Reliability{ReplicationFactor: 2}
	id, _ := b.create(timer)
	b.update(id, timer)
	timer.Reliability = nil
	_, when := b.update(id, timer)
	timer.Reliability = &Reliability{ReplicationFactor: 1}
	_, changed, err := timed(func() (string, error) { return b.client.Update(b.t.Context(), id, timer) })
	b.t.Parallel()
	switch {
	case err == nil:
		when = changed
	case !isRefusal(err):
		b.t.Fatalf("update with another factor neither accepted nor refused with a reason: %v", err)
	}
	b.popTimes(popPath, when, 2*time.Second, 1)
}

func tags(b *bench) {
	one, many := 1, 25
	lists := [][]Tag{
		{{Type: "CALL"}},
		{{Type: "CALL", Count: &one}},
		{{Type: "REG", Count: &many}, {Type: "BINDING"}, {Type: "a tag with spaces", Count: &one}},
	}
	whens := make([]request, 0, len(lists))
	for i, list := range lists {
		timer := OneShot("1", b.url+popPath+"/"+strconv.Itoa(i), "x")
		timer.Statistics = &Statistics{TagInfo: list}
		id, _ := b.create(timer)
		_, when := b.update(id, timer)
		whens = append(whens, when)
	}
	b.t.Parallel()
	for i, when := range whens {
		b.popTimes(popPath+"/"+strconv.Itoa(i), when, time.Second, 1)
	}
}
