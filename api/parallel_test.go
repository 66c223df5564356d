package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// Buffers of requests are used again, so data that outlives a handler must be a copy.
func TestParallelRequestsDontMix(t *testing.T) {
	const clients, rounds = 1000, 2
	timers := &fakeTimers{}
	address := apitest.Serve(t, New(Config{Timers: timers}))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: apitest.Patience}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for round := range rounds {
				err := errTooSlow
				for tries := 0; errors.Is(err, errTooSlow) && tries < 10; tries++ {
					err = putDistinct(client, address, i, round)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	overwrite(t, client, address, clients)
	if n := len(timers.records); n != clients*rounds {
		t.Fatalf("%d timers are stored, want %d", n, clients*rounds)
	}
	for i := range clients {
		for round := range rounds {
			key, want := distinct(i, round)
			found, ok := timers.get(key)
			asked := found.Record.Timer
			if !ok || found.Record.ID.Key != key || asked.Callback != want.Callback || asked.Tags[0] != want.Tags[0] {
				t.Fatalf("%s holds %+v under %q, want %+v", key, asked, found.Record.ID.Key, want)
			}
		}
	}
}

// overwrite sends other bytes through the buffers that the requests had.
func overwrite(t *testing.T, client *http.Client, address string, requests int) {
	t.Helper()
	var group sync.WaitGroup
	for range requests {
		group.Go(func() {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+address+"/timers/"+strings.Repeat("~", 20),
				strings.NewReader(strings.Repeat("~", 400)))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close() // the body doesn't matter
			if resp.StatusCode == http.StatusOK {
				t.Errorf("have %d", resp.StatusCode)
			}
		})
	}
	group.Wait()
}

func distinct(i, round int) (key string, asked timer.Timer) {
	mark := fmt.Sprintf("%04d-%d", i, round)
	return "key-" + mark, timer.Timer{
		Callback: timer.Callback{URI: "http://host-" + mark + "/", Opaque: strings.Repeat(mark, 20)},
		Tags:     []timer.Tag{{Type: "T" + mark, Count: i + 1}},
	}
}

// errTooSlow is the error for a request that a busy machine didn't send in time.
var errTooSlow = errors.New("request timed out at the server")

func putDistinct(client *http.Client, address string, i, round int) error {
	key, asked := distinct(i, round)
	body := fmt.Sprintf(`{"timing":{"interval":1},"callback":{"http":{"uri":%q,"opaque":%q}},"statistics":{"tag-info":[{"type":%q,"count":%d}]},"extra-%s":1}`,
		asked.Callback.URI, asked.Callback.Opaque, asked.Tags[0].Type, asked.Tags[0].Count, key)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+address+"/timers/"+key, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusRequestTimeout {
		return errTooSlow
	}
	if resp.StatusCode != http.StatusOK || !bytes.Contains(read, []byte(`"key":"`+key+`"`)) || !bytes.Contains(read, []byte("/extra-"+key)) {
		return fmt.Errorf("%s: %d %s", key, resp.StatusCode, read)
	}
	return nil
}
