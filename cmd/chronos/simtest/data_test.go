package simtest

import (
	"fmt"
	"maps"
	"strings"
)

// snapshot is all data of a shard. A snapshot is never changed.
type snapshot struct {
	hashes  map[string]map[string]string
	sorted  map[string]map[string]float64
	strings map[string]string
}

// snapshot copies all data.
func (s *shard) snapshot() (snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := snapshot{
		hashes: map[string]map[string]string{}, sorted: map[string]map[string]float64{}, strings: map[string]string{},
	}
	for _, key := range s.mini.Keys() {
		switch kind := s.mini.Type(key); kind {
		case "hash":
			fields, err := s.mini.HKeys(key)
			if err != nil {
				return snapshot{}, fmt.Errorf("read %s: %w", key, err)
			}
			taken.hashes[key] = make(map[string]string, len(fields))
			for _, field := range fields {
				taken.hashes[key][field] = s.mini.HGet(key, field)
			}
		case "zset":
			scores, err := s.mini.SortedSet(key)
			if err != nil {
				return snapshot{}, fmt.Errorf("read %s: %w", key, err)
			}
			taken.sorted[key] = maps.Clone(scores)
		case "string":
			text, err := s.mini.Get(key)
			if err != nil {
				return snapshot{}, fmt.Errorf("read %s: %w", key, err)
			}
			taken.strings[key] = text
		case "stream": // the log of deliveries, which a loss of data may take
		default:
			return snapshot{}, fmt.Errorf("key %s is a %s: teach snapshot to copy it", key, kind)
		}
	}
	return taken, nil
}

// restore replaces all data by a snapshot: the shard loses the writes since the snapshot.
func (s *shard) restore(old snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mini.FlushAll()
	for key, fields := range old.hashes {
		for field, value := range fields {
			s.mini.HSet(key, field, value)
		}
	}
	for key, scores := range old.sorted {
		for member, score := range scores {
			if _, err := s.mini.ZAdd(key, score, member); err != nil {
				return fmt.Errorf("write %s: %w", key, err)
			}
		}
	}
	for key, text := range old.strings {
		if err := s.mini.Set(key, text); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	return nil
}

// dropLetters drops the dead letters.
func (s *shard) dropLetters() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.mini.Keys() {
		if strings.HasSuffix(key, ":dead") {
			s.mini.Del(key)
		}
	}
}

// wipe drops all data; the connections stay.
func (s *shard) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mini.FlushAll()
}
