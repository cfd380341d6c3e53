// Package layout holds the test that keeps the house in order: which package may import which (DESIGN section 1).
package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/penstock-mcp/penstock"

// rooms are the packages directly under internal/. A new one is entered here, and in DESIGN section 1 first.
var rooms = []string{
	"audit", "auth", "catalog", "demo", "durable", "fault", "gateway", "hook", "limit", "mcp", "north", "observe",
	"policy", "qualify", "relay", "south", "store", "task", "wire",
}

// leaves are what the other rooms speak, and import none of them. Among themselves only this is allowed: wire reports what
// is wrong with a message as the one error type, fault.
var leaves = []string{"wire", "mcp", "fault"}

// allowed says what a room may import beside the leaves. A room that needs another declares the small interface that it
// uses, and gateway joins them; what stands here are the exceptions.
var allowed = map[string][]string{
	"wire":    {"fault"},
	"durable": {"store"},            // the repository interfaces of its routes and leases
	"qualify": {"durable", "store"}, // it is the proof of the one over the other, and drives both
	"task":    {"store"},            // likewise, of the records of who owns a task
	"north":   {"store"},            // the repository interface of its sessions, never an engine
}

// imports maps each folder that holds Go files, from the root of the module ("" is the root itself), to the folders of
// this module that its files import, tests left out: a test may stand wherever it needs to.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	root := moduleRoot(t)
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file != root && (name == "build" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != root {
				return filepath.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		from = strings.TrimPrefix(filepath.ToSlash(from), ".")
		if _, seen := found[from]; !seen {
			found[from] = []string{}
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if imported == module || strings.HasPrefix(imported, module+"/") {
				found[from] = append(found[from], strings.TrimPrefix(strings.TrimPrefix(imported, module), "/"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no Go file found")
	}
	return found
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if raw, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(raw), "module "+module+"\n") {
			return dir
		}
	}
	t.Fatal("no go.mod of this module above the test")
	return ""
}

// room returns the room that a folder belongs to, or "".
func room(folder string) string {
	rest, inside := strings.CutPrefix(folder, "internal/")
	if !inside {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func TestEveryRoomIsOneThatTheDesignKnows(t *testing.T) {
	for folder := range imports(t) {
		if r := room(folder); r != "" && !slices.Contains(rooms, r) {
			t.Errorf("internal/%s is no room of the design", r)
		}
	}
}

func TestTheLeavesImportNoOtherRoom(t *testing.T) {
	for folder, all := range imports(t) {
		if !slices.Contains(leaves, room(folder)) {
			continue
		}
		for _, to := range all {
			if room(to) != room(folder) && !slices.Contains(allowed[room(folder)], room(to)) {
				t.Errorf("%s imports %s", folder, to)
			}
		}
	}
}

// The embedding surface opens the store, for the gateway must outlive no caller's
// choice of one. The qualification is about a real file, and opens no other.
func TestOnlyTheEmbeddingSurfaceAndTheGatewayChooseAStoreEngine(t *testing.T) {
	for folder, all := range imports(t) {
		if folder == "" || folder == "." || slices.Contains([]string{"store", "gateway", "qualify"}, room(folder)) {
			continue
		}
		for _, to := range all {
			if strings.HasPrefix(to, "internal/store/") {
				t.Errorf("%s imports %s", folder, to)
			}
		}
	}
}

func TestNorthAndSouthDoNotReachEachOther(t *testing.T) {
	graph := imports(t)
	for _, pair := range [][2]string{{"north", "south"}, {"south", "north"}} {
		for folder := range graph {
			if room(folder) != pair[0] {
				continue
			}
			for reached := range reach(graph, folder) {
				if room(reached) == pair[1] {
					t.Errorf("%s reaches %s", folder, reached)
				}
			}
		}
	}
}

func reach(graph map[string][]string, from string) map[string]bool {
	seen := map[string]bool{}
	next := []string{from}
	for len(next) > 0 {
		folder := next[0]
		next = next[1:]
		for _, to := range graph[folder] {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}

func TestOnlyTheGatewayJoinsRooms(t *testing.T) {
	for folder, all := range imports(t) {
		from := room(folder)
		if from == "" || from == "gateway" {
			continue
		}
		for _, to := range all {
			r := room(to)
			leaf := slices.Contains(leaves, r) && !slices.Contains(leaves, from)
			if r == from || leaf || slices.Contains(allowed[from], r) {
				continue
			}
			if r == "" {
				t.Errorf("%s imports %q, which lies outside the rooms", folder, path.Join(module, to))
				continue
			}
			t.Errorf("%s imports internal/%s: declare the interface it needs, and let gateway join them", folder, r)
		}
	}
}

func TestNoPackageIsADrawerForEverything(t *testing.T) {
	for folder := range imports(t) {
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "types", "misc"}, path.Base(folder)) {
			t.Errorf("%s is named for nothing in particular", folder)
		}
	}
}
