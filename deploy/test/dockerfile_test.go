package deploytest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// image is the outcome of a stage of the Dockerfile.
type image struct {
	root         string // folder with all files of the image
	fromRegistry bool   // the files of a base image are not in root
	dir          string // where commands run, within root
	env          []string
	user         string
	entrypoint   []string
	health       []string // the arguments of the command
	ports        []string
}

// builder carries out a Dockerfile. Root folders stand for images.
type builder struct {
	repository string
	context    string // folder with the files of the repository that .dockerignore lets through
	temporary  string
	images     map[string]*image // by the name of the stage; the name of the last stage is ""
}

// buildImages carries out deploy/Dockerfile. The folder temporary gets all files.
func buildImages(repository, temporary string) (map[string]*image, error) {
	b := &builder{repository: repository, context: filepath.Join(temporary, "context"), temporary: temporary, images: map[string]*image{}}
	if err := b.send(); err != nil {
		return nil, fmt.Errorf("send the context: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "Dockerfile"))
	if err != nil {
		return nil, fmt.Errorf("read the Dockerfile: %w", err)
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parse the Dockerfile: %w", err)
	}
	stages, arguments, err := instructions.Parse(parsed.AST, nil)
	if err != nil || len(arguments) > 0 {
		return nil, fmt.Errorf("parse the Dockerfile, which has %d global arguments: %w", len(arguments), err)
	}
	for n := range stages {
		if err := b.stage(n, &stages[n]); err != nil {
			return nil, err
		}
	}
	return b.images, nil
}

// send copies the files that .dockerignore lets through.
func (b *builder) send() error {
	file, err := os.Open(filepath.Join(b.repository, ".dockerignore"))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return err
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		return err
	}
	return filepath.WalkDir(b.repository, func(from string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(b.repository, from)
		if err != nil {
			return err
		}
		if ignore, err := ignored.MatchesOrParentMatches(name); err != nil || ignore {
			return err
		}
		return copyFile(from, filepath.Join(b.context, name))
	})
}

func (b *builder) stage(n int, stage *instructions.Stage) error {
	made := &image{dir: "/", fromRegistry: stage.BaseName != "scratch"}
	root := filepath.Join(b.temporary, fmt.Sprintf("stage-%d", n))
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if base := b.images[stage.BaseName]; base != nil {
		*made = *base
		if err := copyAll(base.root, root); err != nil {
			return err
		}
	}
	made.root = root
	for _, command := range stage.Commands {
		if err := b.command(made, command); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	b.images[stage.Name] = made
	return nil
}

// command carries out an instruction. An instruction that is not known here fails.
func (b *builder) command(i *image, command instructions.Command) error {
	switch c := command.(type) {
	case *instructions.WorkdirCommand:
		i.dir = path.Join(i.dir, c.Path)
		return os.MkdirAll(filepath.Join(i.root, i.dir), 0o755)
	case *instructions.CopyCommand:
		return b.copy(i, c)
	case *instructions.RunCommand:
		if !c.PrependShell {
			return errors.New("the test knows commands of a shell alone")
		}
		return i.build(strings.Join(c.CmdLine, " "))
	case *instructions.EnvCommand:
		for _, pair := range c.Env {
			i.env = append(i.env, pair.Key+"="+pair.Value)
		}
	case *instructions.UserCommand:
		i.user = c.User
	case *instructions.ExposeCommand:
		i.ports = append(i.ports, c.Ports...)
	case *instructions.HealthCheckCommand:
		if len(c.Health.Test) == 0 || c.Health.Test[0] != "CMD" {
			return errors.New("an image without a shell needs CMD and a list")
		}
		i.health = c.Health.Test[1:]
	case *instructions.EntrypointCommand:
		if c.PrependShell {
			return errors.New("an image without a shell needs a list")
		}
		i.entrypoint = c.CmdLine
	default:
		return errors.New("the test does not know this instruction")
	}
	return nil
}

// build runs a command of a build as the base image does, with the Go of this machine.
func (i *image) build(command string) error {
	cmd := exec.Command("/bin/sh", "-c", command) //nolint:noctx // the limit of the test bounds the build
	cmd.Dir = filepath.Join(i.root, i.dir)
	foreign := func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS") || strings.HasPrefix(variable, "CGO_")
	}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), foreign), append(i.env, "GOTOOLCHAIN=local")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (b *builder) copy(i *image, c *instructions.CopyCommand) error {
	to := c.DestPath
	if !path.IsAbs(to) {
		to = path.Join(i.dir, to)
	}
	for _, source := range c.SourcePaths {
		from, err := b.source(c.From, source)
		if err != nil {
			return err
		}
		into := filepath.Join(i.root, to)
		info, err := os.Stat(from)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			err = copyAll(from, into)
		case strings.HasSuffix(c.DestPath, "/"):
			err = copyFile(from, filepath.Join(into, path.Base(source)))
		default:
			err = copyFile(from, into)
		}
		if err != nil {
			return err
		}
		if err := giveTo(c.Chown, into); err != nil {
			return err
		}
	}
	return nil
}

// source is the path of a file to copy: of the context, or of another stage. This machine stands for a base
// image: both are a Debian.
func (b *builder) source(stage, name string) (string, error) {
	if stage == "" {
		return filepath.Join(b.context, name), nil
	}
	from := b.images[stage]
	if from == nil {
		return "", fmt.Errorf("no stage has the name %s", stage)
	}
	if made := filepath.Join(from.root, name); exists(made) || !from.fromRegistry {
		return made, nil
	}
	return name, nil
}

// giveTo changes the owner of files, as far as the user of the test may.
func giveTo(owner, tree string) error {
	if owner == "" || os.Geteuid() != 0 {
		return nil
	}
	if out, err := exec.Command("chown", "-R", owner, tree).CombinedOutput(); err != nil { //nolint:noctx // ends at once
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// copyAll copies the files and folders of a folder with their permissions, and overwrites files.
func copyAll(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		into := filepath.Join(to, relative)
		if !entry.IsDir() {
			return copyFile(name, into)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := os.MkdirAll(into, 0o755); err != nil {
			return err
		}
		return os.Chmod(into, info.Mode().Perm())
	})
}

// copyFile copies a file with its permissions, and makes the folders above.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// command makes the program and the arguments that run a command in the image, as the user of the image.
func (i *image) command(args ...string) (program string, all []string) {
	user, group, _ := strings.Cut(i.user, ":")
	if os.Geteuid() == 0 {
		return "chroot", append([]string{"--userspec=" + i.user, i.root}, args...)
	}
	return "unshare", append([]string{"--user", "--map-user=" + user, "--map-group=" + group, "--root=" + i.root, "--"}, args...)
}

// run runs a command in the image to its end.
func (i *image) run(env []string, args ...string) (out string, status int, err error) {
	program, all := i.command(args...)
	cmd := exec.Command(program, all...) //nolint:noctx // commands of chronos end within 30 s
	cmd.Env = env
	text, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	return string(text), cmd.ProcessState.ExitCode(), err
}
