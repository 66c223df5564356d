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
	startLimit  = time.Minute // on a busy machine; a start on an idle machine takes 2 s
	answerLimit = 5 * time.Second
	askAgain    = 20 * time.Millisecond
	logLines    = 60 // shown by a failure
)

// Server is a Kafka cluster of a single process, on the loopback interface. Only a single
// goroutine at a time may use a Server.
type Server struct {
	dir       string
	addr      string
	classpath string
	lasting   bool    // runs for longer than a test
	secure    *Secure // may be nil
	process   *testkit.Process
}

// Launch starts a server with its data in dir, and returns when the server answers. If port is
// 0, Launch picks a free port. Kill ends the server; on Linux so does the end of this process.
// If lasting is true, Java compiles better, and starts a little later.
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

// PID is the id of the process that runs, or ran last.
func (s *Server) PID() int { return s.process.PID() }

// CreateTopic creates a topic, and returns when every partition has its leader.
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

// awaitLeaders returns when every partition of the topics is served; without names, of all
// topics. A visible leader is not enough: the leader may not serve yet, and a client that was
// refused may ask again only after seconds.
func (s *Server) awaitLeaders(ctx context.Context, admin *kadm.Client, topics ...string) error {
	return s.await(ctx, "each partition has its leader", func(ctx context.Context) error {
		offsets, err := admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		return offsets.Error()
	})
}

// Kill ends the process at once with SIGKILL, and returns when the process has ended.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Restart starts the server again, at the same address with the same data, and returns when
// the server serves every partition. A running server is killed first.
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
	// A broker answers nothing before the controller has admitted the broker.
	if err := s.await(ctx, "the broker answers", func(ctx context.Context) error {
		_, err := client.SeedBrokers()[0].Request(ctx, kmsg.NewPtrApiVersionsRequest()) // the client does not retry this request
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

// await asks until an answer without error, or until the process has ended.
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
