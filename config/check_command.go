package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkCommand holds what a child process needs, and what only one of the two
// kinds of upstream has.
func (d *decoder) checkCommand(path string, u *Upstream) {
	_, written := d.places[path+".command"+keySuffix]
	if !u.Child() {
		if written && !d.bad(path+".command") && u.Command != nil {
			d.problemFor(path+".command", keySuffix, "must not be empty", "write the program and its arguments as a list")
		}
		for _, key := range []string{"dir", "env", "restart"} {
			if _, there := d.places[path+"."+key+keySuffix]; there && !written {
				d.warnFor(path+"."+key, keySuffix, "has no effect without command", "")
			}
		}
		return
	}
	for _, key := range []string{"headers", "credentials", "tls", "proxy"} {
		if _, there := d.places[path+"."+key+keySuffix]; there {
			d.warnFor(path+"."+key, keySuffix, "has no effect on a child process", "")
		}
	}
	d.checkArguments(path, u)
	if u.Dir != "" {
		if fi, err := os.Stat(u.Dir); err != nil || !fi.IsDir() {
			d.warnFor(path+".dir", "", "is not a folder"+d.named(path+".dir"), "")
		}
	}
	for _, name := range sortedKeys(u.Env) {
		at := join(path+".env", name)
		switch value := u.Env[name].Reveal(); {
		case !variableForm.MatchString(name):
			d.problemFor(at, keySuffix, "is not a name that a variable can have", "")
		case strings.ContainsRune(value, 0):
			d.problemFor(at, "", "must not hold a NUL character", "")
		case LooksSecret(name):
			d.warnPlain(at, u.Env[name])
		}
	}
	if r := u.Restart; r != nil && r.Backoff > r.Max {
		d.problemFor(path+".restart", keySuffix, "backoff must not be longer than max", "")
	}
}

func (d *decoder) checkArguments(path string, u *Upstream) {
	for i, arg := range u.Command {
		if strings.ContainsRune(arg, 0) {
			d.problemFor(path+".command", keySuffix, "must not hold a NUL character", "")
			return
		}
		if i == 0 && arg == "" {
			d.problemFor(path+".command", keySuffix, "has no program", "the first item is the program")
			return
		}
	}
	program := u.Command[0]
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) && u.Dir != "" {
		program = filepath.Join(u.Dir, program)
	}
	if _, err := exec.LookPath(program); err != nil {
		d.warnFor(path+".command", keySuffix, "the program is not found", "install it, or write its whole path")
	}
}
