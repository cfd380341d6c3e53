package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/config"
)

// following is a reloader of a file, without a gateway.
type following struct {
	t    *testing.T
	file string

	mu    sync.Mutex // guards what follows
	taken []string   // the upstreams of each document that was taken, joined
	log   bytes.Buffer
}

func follow(t *testing.T, file string, upstreams ...string) *following {
	t.Helper()
	return followWith(t, file, func(*config.Document) error { return nil }, upstreams...)
}

// followWith is follow where flags change every document.
func followWith(t *testing.T, file string, flags func(*config.Document) error, upstreams ...string) *following {
	t.Helper()
	f := &following{t: t, file: file}
	f.write(documentOf(upstreams...))
	now, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &reloader{
		path: file, now: now,
		load: func() (*config.Document, error) {
			d, err := config.Load(file)
			if err == nil {
				err = flags(d)
			}
			return d, err
		},
		take: func(_ context.Context, d *config.Document) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.taken = append(f.taken, strings.Join(d.UpstreamKeys(), ","))
			return nil
		},
		log: slog.New(slog.NewTextHandler(f, nil)),
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	time.Sleep(2 * settle) // the watch stands
	return f
}

// Write takes the log.
func (f *following) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(b)
}

func (f *following) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

func (f *following) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.taken...)
}

func (f *following) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// wants waits until the document taken last has these upstreams.
func (f *following) wants(upstreams string) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if all := f.all(); len(all) > 0 && all[len(all)-1] == upstreams {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%q is not taken over, but %q; the log:\n%s", upstreams, f.all(), f.said())
		}
	}
}

func documentOf(upstreams ...string) string {
	var b strings.Builder
	for i, u := range upstreams {
		if i == 0 {
			b.WriteString("upstreams:\n")
		}
		fmt.Fprintf(&b, "  %s: {url: 'http://127.0.0.1:1/mcp'}\n", u)
	}
	return b.String()
}

// Whatever lies in the file while it is written, be it nothing or a beginning that is
// a document of its own, is not taken for the document.
func TestADocumentThatIsBeingWrittenIsNotTaken(t *testing.T) {
	t.Parallel()
	f := follow(t, filepath.Join(t.TempDir(), "penstock.yaml"), "a")
	for n := range 25 {
		name := fmt.Sprintf("a%d", n)
		whole := documentOf(name, "b", "c")
		w, err := os.Create(f.file)
		if err != nil {
			t.Fatal(err)
		}
		// Line by line, so that every beginning is valid. Looks that earlier changes
		// caused fall into any moment of it.
		for _, line := range strings.SplitAfter(whole, "\n") {
			time.Sleep(rand.N(settle * 3 / 4))
			if _, err := w.WriteString(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n%3 > 0 {
			f.wants(name + ",b,c") // otherwise the next follows at once
		}
	}
	for _, keys := range f.all() {
		if !strings.HasSuffix(keys, ",b,c") {
			t.Errorf("a document with upstreams %q was taken", keys)
		}
	}
}

// What else goes on in the folder, such as the gateway's own database, does not keep a
// change from being found.
func TestABusyFolderDoesNotHideAChange(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	f := follow(t, filepath.Join(folder, "penstock.yaml"), "a")
	stop := make(chan struct{})
	var busy sync.WaitGroup
	defer busy.Wait()
	defer close(stop)
	for _, act := range []func(name string){
		func(name string) { _ = os.WriteFile(name, []byte("x"), 0o600) },
		func(name string) { _ = os.WriteFile(name, nil, 0o600); _ = os.Remove(name) },
	} {
		busy.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
					act(filepath.Join(folder, fmt.Sprintf("other%d", i%10)))
				}
			}
		})
	}
	f.write(documentOf("b"))
	f.wants("b")
	f.write(documentOf("c"))
	f.wants("c")
}

// Whether or not flags name upstreams beside those of the file.
func TestAnEmptyFileIsNoDocumentThatServesNothing(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"z=http://127.0.0.1:1/mcp"}} {
		f := followWith(t, filepath.Join(t.TempDir(), "penstock.yaml"), func(d *config.Document) error {
			return d.AddUpstreams(flags)
		}, "a")
		f.write("")
		for end := time.Now().Add(20 * time.Second); !strings.Contains(f.said(), f.file+" is empty; write {} into it"); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("nothing is said of it: %s", f.said())
			}
		}
		if got := f.all(); len(got) != 0 {
			t.Errorf("taken: %q", got)
		}
		f.write("{}\n")
		f.wants(strings.Repeat("z", len(flags)))
	}
}

func TestAReplacedFileAndATurnedLinkAreFound(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	turn := func(to string) {
		t.Helper()
		tmp := filepath.Join(folder, "..tmp")
		if err := os.Symlink(to, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(folder, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	// As Kubernetes mounts a ConfigMap.
	put("..one/penstock.yaml", documentOf("a"))
	put("..two/penstock.yaml", documentOf("b"))
	turn("..one")
	if err := os.Symlink("..data/penstock.yaml", filepath.Join(folder, "penstock.yaml")); err != nil {
		t.Fatal(err)
	}
	f := follow(t, filepath.Join(folder, "penstock.yaml"), "a")
	turn("..two")
	f.wants("b")
	// A file in the link's place.
	put("new", documentOf("c"))
	if err := os.Rename(filepath.Join(folder, "new"), f.file); err != nil {
		t.Fatal(err)
	}
	f.wants("c")
}

// An event comes after what it tells of, so a look may find a file that was emptied a
// moment ago: one look is not enough, and what is read after it is compared again.
func TestWhatIsTakenWasSeenTwice(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "penstock.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	f, err := watch(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	look := func(what string, want bool) {
		t.Helper()
		if f.changed() != want {
			t.Errorf("%s: changed is %v", what, !want)
		}
	}
	look("nothing happened", false)
	put("")
	look("emptied", false)
	put("b")
	look("written after that", false)
	if !f.due {
		t.Error("it is not looked at again")
	}
	look("still so", true)
	look("taken", false)
	put("c")
	look("once more", false)
	put("b")
	look("as it was", false)
	put("c")
	look("and again", false)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	look("away", false)
	put("c")
	look("back", false)
	look("back for good", true)
	if !f.holds() {
		t.Error("what was taken does not hold")
	}
	put("d")
	if f.holds() || !f.due {
		t.Error("what was read while it was written holds, or is not looked at again")
	}
	look("what was read", false)
	look("what was read, still so", true)
}
