package neutral

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errDirectory is an output directory that a worker does not write to.
var errDirectory = errors.New("an output directory is relative, of 1 to 8 plain names, and passes through no symbolic link")

// components checks an output directory and takes it apart. A name is plain when
// it is that on every system.
func components(directory string) ([]string, error) {
	names := strings.Split(directory, "/")
	if len(names) > MaxComponents {
		return nil, errDirectory
	}
	for _, n := range names {
		if n == "" || len(n) > 128 || n == "." || n == ".." || strings.ContainsAny(n, "\\:\x00") || !filepath.IsLocal(n) {
			return nil, errDirectory
		}
	}
	return names, nil
}

// place makes the output directory of an assignment, one component at a time,
// and opens it. What is written through it stays in it.
func (a *Assignment) place() (*os.Root, error) {
	names, err := components(a.Directory)
	if err != nil {
		return nil, err
	}
	at, err := os.OpenRoot(a.Root)
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{OutputFolder}, names...) {
		next, err := enter(at, name)
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// enter makes a folder where there is none, and opens it: the very folder that
// was looked at, whatever takes its name meanwhile.
func enter(at *os.Root, name string) (*os.Root, error) {
	if err := at.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("%w: %q is something else than a folder", errDirectory, name)
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
		_ = next.Close()
		return nil, fmt.Errorf("%w: %q was exchanged", errDirectory, name)
	}
	return next, nil
}
