package topology

import "testing"

// A node goes on to use a shard at the URL that the node was started with.
func TestAGivenShardIsUsedWhereItWasGiven(t *testing.T) {
	t.Parallel()
	c, err := New(Options{Given: []Member{{Name: "a", URL: "redis://a.test"}}, Connect: connect})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	shards, err := c.shardsOf(&Topology{Shards: []Member{{Name: "a", URL: "redis://elsewhere.test"}, {Name: "b", URL: "redis://b.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := shards[0].URL(), shards[1].URL(); a != "redis://a.test" || b != "redis://b.test" || len(c.Connected()) != 2 {
		t.Errorf("connected to %s and %s, %d in all", a, b, len(c.Connected()))
	}
}
