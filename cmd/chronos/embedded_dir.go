package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Files in a data directory beside Redis' own append-only files.
const (
	nodeLock    = "node.lock"  // locked by the node, holds its pid
	redisLock   = "redis.lock" // locked by the redis-server
	redisSocket = "redis.sock"
	redisPID    = "redis.pid"
	redisLog    = "redis.log"
	linkNote    = "redis.link" // names the directory of the shortcut, if any
)

// maxSocketPath is the length that fits on every system into the address of a unix socket.
const maxSocketPath = 103

// maxLog is the size at which a start puts redis.log aside as redis.log.1.
const maxLog = 1 << 20

var errLocked = errors.New("locked by another process")

// dataDir is a directory: the path as given, and the absolute path.
type dataDir struct {
	given, path string
}

// openDataDir creates a missing directory for this user alone. Since the timers' data is in the
// directory, openDataDir refuses a directory that other users of the machine can get into.
func openDataDir(given string) (dataDir, error) {
	path, err := filepath.Abs(given)
	if err != nil {
		return dataDir{}, fmt.Errorf("find data directory %s: %w", given, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return dataDir{}, fmt.Errorf("create data directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return dataDir{}, fmt.Errorf("look at data directory: %w", err)
	}
	if mode := info.Mode().Perm(); info.IsDir() && mode&0o077 != 0 {
		return dataDir{}, fmt.Errorf("open data directory %s: other users of this machine can get into it (mode %04o); "+
			"run chmod 700 %s, or set CHRONOS_DATA_DIR to another", given, mode, quoted(path))
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && int(owner.Uid) != os.Geteuid() {
		return dataDir{}, fmt.Errorf("open data directory %s: it belongs to the user with the number %d, who can change the timers; "+
			"run chronos as that user, or set CHRONOS_DATA_DIR to another", given, owner.Uid)
	}
	return dataDir{given: given, path: path}, nil
}

func (d dataDir) file(name string) string { return filepath.Join(d.path, name) }

// lockForNode locks the directory for this process, until unlock or the end of the process.
func (d dataDir) lockForNode() (*os.File, error) {
	lock, err := tryLock(d.file(nodeLock))
	if errors.Is(err, errLocked) {
		holder, _ := os.ReadFile(d.file(nodeLock)) // for the message alone
		return nil, fmt.Errorf("open data directory %s: a living node uses it (%s); give this one another CHRONOS_DATA_DIR, "+
			"or let both use one Redis by setting CHRONOS_REDIS", d.given, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // for the message alone
	text := fmt.Sprintf("pid %d on %s\n", os.Getpid(), host)
	if err := errors.Join(lock.Truncate(0), second(lock.WriteAt([]byte(text), 0))); err != nil {
		return nil, errors.Join(fmt.Errorf("write pid into lock file: %w", err), unlock(lock))
	}
	return lock, nil
}

func second[T any](_ T, err error) error { return err }

// lockForRedis takes the lock that a redis-server inherits. The call fails with errLocked
// while a redis-server lives, or a child of the redis-server that rewrites the file.
func (d dataDir) lockForRedis() (*os.File, error) { return tryLock(d.file(redisLock)) }

// tryLock creates and locks the file, or fails with errLocked. Lock files are never
// removed: otherwise two processes could lock two files of the same name.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}

// unlock drops the lock and closes the file. Closing is not enough: while this process
// starts a child, the child has every file open for a moment.
func unlock(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

// shortcut is a short way to the socket. The address of a unix socket holds little
// more than 100 bytes. For a longer path, clients reach the socket through a symbolic
// link in a new, private temporary directory. The redis-server needs no path, since the
// data directory is its working directory.
type shortcut struct {
	socket string
	temp   string // the temporary directory, "" if not needed
	note   string
}

// shorten makes the shortcut, and removes a shortcut that a killed node left.
func (d dataDir) shorten() (*shortcut, error) {
	s := &shortcut{socket: d.file(redisSocket), note: d.file(linkNote)}
	if left, err := os.ReadFile(s.note); err == nil {
		old := shortcut{temp: strings.TrimSpace(string(left)), note: s.note}
		if target, err := os.Readlink(old.link()); err == nil && target == d.path {
			if err := old.remove(); err != nil {
				return nil, err
			}
		}
	}
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		if len(s.socket) <= maxSocketPath {
			return s, nil
		}
		if s.temp != "" {
			if err := s.remove(); err != nil {
				return nil, err
			}
		}
		temp, err := os.MkdirTemp(parent, "chronos-")
		if err != nil {
			return nil, fmt.Errorf("create directory for a short socket path: %w", err)
		}
		s.temp = temp
		s.socket = filepath.Join(s.link(), redisSocket)
		err = errors.Join(os.WriteFile(s.note, []byte(temp+"\n"), 0o600), os.Symlink(d.path, s.link()))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create short socket path: %w", err), s.remove())
		}
	}
	return s, nil
}

func (s *shortcut) link() string { return filepath.Join(s.temp, "d") }

func (s *shortcut) remove() error {
	if s.temp == "" {
		return nil
	}
	var faults []error
	for _, path := range []string{s.link(), s.temp, s.note} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, fmt.Errorf("remove short socket path: %w", err))
		}
	}
	return errors.Join(faults...)
}

// socketURL escapes the path, so that the URL fits into a list of shards, too.
func socketURL(socket string) string {
	u := url.URL{Scheme: "unix", Path: socket}
	u.RawPath = strings.NewReplacer(",", "%2C", "=", "%3D").Replace(u.EscapedPath())
	return u.String()
}

// cli is the command that opens the socket. The command uses the directory as given, so
// that the command is short and works where the node was started.
func (d dataDir) cli() string {
	dir := strings.TrimRight(d.given, "/")
	if socket := dir + "/" + redisSocket; len(socket) <= maxSocketPath {
		return "redis-cli -s " + quoted(socket)
	}
	return "(cd " + quoted(dir) + " && redis-cli -s " + redisSocket + ")"
}

// quoted is the word, quoted for a shell if need be.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:=@%", r)
	}
	if strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// openLog opens redis.log for appending, and returns the present end of the file.
func (d dataDir) openLog() (file *os.File, end int64, err error) {
	path := d.file(redisLog)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, fmt.Errorf("put log of redis-server aside: %w", err)
		}
	}
	file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("open log of redis-server: %w", err)
	}
	end, err = file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open log of redis-server: %w", err), file.Close())
	}
	return file, end, nil
}

// tail gives the last lines of the file that were written after the offset.
func tail(path string, from int64, lines int) string {
	const most = 4 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	from = max(from, info.Size()-most)
	text, err := io.ReadAll(io.NewSectionReader(file, from, most))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
