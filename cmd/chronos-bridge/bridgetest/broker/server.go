package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/verify/freeport"
	"chronos/scheduler/verify/testkit"
)

const (
	startLimit  = time.Minute // on a busy machine; alone it takes 2 s
	answerLimit = 5 * time.Second
	askAgain    = 20 * time.Millisecond
	logLines    = 60 // that a failure shows
)

// Server is a Kafka cluster of one process, on the loopback interface. It is for one
// goroutine at a time.
type Server struct {
	dir       string
	addr      string
	classpath string
	lasting   bool    // it is to run for longer than a test
	secure    *Secure // nil for none
	process   *testkit.Process
}

// Launch starts a server that keeps what it has in dir, at the port or, if that is 0, at
// a free one, and returns when it answers. Kill ends it, as does the end of this
// process on Linux. Lasting has Java compile what it runs often, which costs the start
// some time.
func Launch(ctx context.Context, dir string, port int, lasting bool) (*Server, error) {
	return launch(ctx, dir, port, lasting, nil)
}

// launchSecure is Launch with a second listener, at a free port.
func launchSecure(ctx context.Context, dir, user, password string) (*Server, *Secure, error) {
	secure, err := newSecure(dir, user, password)
	if err != nil {
		return nil, nil, err
	}
	s, err := launch(ctx, dir, 0, false, secure)
	if err != nil {
		return nil, nil, err
	}
	if err := s.admit(ctx); err != nil {
		s.Kill()
		return nil, nil, err
	}
	return s, secure, nil
}

func launch(ctx context.Context, dir string, port int, lasting bool, secure *Secure) (*Server, error) {
	kafka, err := fetch(ctx)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		if port, err = freeport.Pick(); err != nil {
			return nil, err
		}
	}
	controller, err := freeport.Pick()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), lasting: lasting, secure: secure}
	if s.classpath, err = kafka.classpath(); err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	if err := os.CopyFS(data, kafka.formatted()); err != nil {
		return nil, fmt.Errorf("copy the formatted data folder: %w", err)
	}
	if err := os.WriteFile(s.settings(), []byte(properties(port, controller, data, secure)), 0o600); err != nil {
		return nil, fmt.Errorf("write the settings: %w", err)
	}
	if err := s.launch(ctx); err != nil {
		s.Kill()
		return nil, fmt.Errorf("%w; end of its log:\n%s", err, s.logTail())
	}
	return s, nil
}

// Addr is where clients find the server, host and port.
func (s *Server) Addr() string { return s.addr }

// Log is the file that the server logs to, over all restarts.
func (s *Server) Log() string { return filepath.Join(s.dir, "broker.log") }

// PID is of the process that runs, or ran last.
func (s *Server) PID() int { return s.process.PID() }

// CreateTopic creates a topic, and returns when each partition has its leader.
func (s *Server) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	pointers := make(map[string]*string, len(configs))
	for key, value := range configs {
		pointers[key] = &value
	}
	bounded, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if _, err := admin.CreateTopic(bounded, int32(partitions), 1, pointers, name); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	if err := s.await(ctx, "topic "+name+" has its partitions", func(ctx context.Context) error {
		topics, err := admin.ListTopics(ctx, name)
		if err != nil {
			return err
		}
		if found := len(topics[name].Partitions); found != partitions {
			return fmt.Errorf("it has %d of %d partitions", found, partitions)
		}
		return nil
	}); err != nil {
		return err
	}
	return s.awaitLeaders(ctx, admin, name)
}

// awaitLeaders returns when each partition is served, of all topics if none is named:
// that it has its leader can be seen before that, and a client which was told that
// it was wrong may look again after seconds only.
func (s *Server) awaitLeaders(ctx context.Context, admin *kadm.Client, topics ...string) error {
	return s.await(ctx, "each partition has its leader", func(ctx context.Context) error {
		offsets, err := admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		return offsets.Error()
	})
}

// Kill ends the process at once, as SIGKILL does, and returns when it has ended.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Restart starts the server again at the same address with what it has kept, and
// returns when it serves each partition. If it runs it is killed before.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.launch(ctx)
}

func (s *Server) signal(what syscall.Signal) error { return s.process.Cmd.Process.Signal(what) }

func (s *Server) settings() string { return filepath.Join(s.dir, "server.properties") }

func (s *Server) launch(ctx context.Context) error {
	arguments := append(javaArguments(s.dir, s.classpath, s.lasting), "kafka.Kafka", s.settings())
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	p, err := testkit.Launch(log, nil, "java", arguments...)
	if err != nil {
		return err
	}
	s.process = p
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	// A broker answers nothing before the controller has let it in.
	if err := s.await(ctx, "the broker answers", func(ctx context.Context) error {
		_, err := client.SeedBrokers()[0].Request(ctx, kmsg.NewPtrApiVersionsRequest()) // not tried again, unlike others
		return err
	}); err != nil {
		return err
	}
	return s.awaitLeaders(ctx, kadm.NewClient(client))
}

func (s *Server) client() (*kgo.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.MetadataMinAge(askAgain))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

// await asks until there is no error, or the process has ended.
func (s *Server) await(ctx context.Context, what string, ask func(context.Context) error) error {
	begun := time.Now()
	ticker := time.NewTicker(askAgain)
	defer ticker.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, answerLimit)
		err := ask(bounded)
		cancel()
		if err == nil {
			return nil
		}
		if time.Since(begun) > startLimit {
			return fmt.Errorf("waited %v in vain until %s: %w", startLimit, what, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-s.process.Done:
			return fmt.Errorf("waited until %s: the broker has ended: %w", what, errors.Join(s.process.Err, err))
		}
	}
}

func (s *Server) logTail() []byte {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(text, logLines)
}
