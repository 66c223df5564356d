package localtoken

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Dir is a directory for token files.
type Dir struct {
	path   string
	own    bool        // for tokens alone: made if missing, and must not be a link
	closed fs.FileMode // permissions that other users must not have
	advice string      // for the user if the directory can't be used
}

// RuntimeDir is where commands look for tokens: chronos in $XDG_RUNTIME_DIR, or
// chronos-<uid> in the directory for temporary files if the variable is unset.
func RuntimeDir(environ []string) Dir { return runtimeDirs(environ)[0] }

// DataDir is the data directory of a node. The directory must exist.
func DataDir(path string) Dir {
	const write = 0o022
	return Dir{path: path, closed: write, advice: "set CHRONOS_DATA_DIR to a directory of the user who runs this, that no other user can change"}
}

// runtimeDirs are the directories in which a process may have written its token. A
// process without a login, such as a service, has no XDG_RUNTIME_DIR.
func runtimeDirs(environ []string) (dirs []Dir) {
	const everything = 0o077
	const advice = "set XDG_RUNTIME_DIR to a directory of the user who runs this, or CHRONOS_TOKENS_FILE to a file of tokens"
	runtime := ""
	for _, entry := range environ {
		if value, is := strings.CutPrefix(entry, "XDG_RUNTIME_DIR="); is {
			runtime = value
		}
	}
	if filepath.IsAbs(runtime) { // relative paths are ignored, as the specification of XDG says
		dirs = append(dirs, Dir{path: filepath.Join(runtime, "chronos"), own: true, closed: everything, advice: advice})
	}
	temporary := filepath.Join(os.TempDir(), "chronos-"+strconv.Itoa(os.Geteuid()))
	return append(dirs, Dir{path: temporary, own: true, closed: everything, advice: advice})
}

func (d Dir) openOrMake() (*os.Root, error) {
	if d.own {
		if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make directory for the token of the admin listener: %w; %s", err, d.advice)
		}
	}
	return d.open()
}

// open opens the directory, and then checks the opened directory. Files are read and written in a
// directory of this user, even if another user changes the path afterwards.
func (d Dir) open() (*os.Root, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, fmt.Errorf("open directory for the token of the admin listener: %w; %s", err, d.advice)
	}
	if err := d.check(root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func (d Dir) check(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at directory %s: %w", d.path, err)
	}
	refuse := func(why string) error {
		return fmt.Errorf("directory %s can't hold the token of the admin listener: %s; %s", d.path, why, d.advice)
	}
	if named, err := os.Lstat(d.path); d.own && (err != nil || !os.SameFile(named, info)) {
		return refuse("it is a link")
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || int(owner.Uid) != os.Geteuid():
		return refuse("it belongs to another user")
	case info.Mode().Perm()&d.closed != 0:
		return refuse(fmt.Sprintf("other users have access, its mode is %04o", info.Mode().Perm()))
	}
	return nil
}
