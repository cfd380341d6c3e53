package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-mcp/penstock/internal/fault"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheRevokedFileIsOneEntryALine(t *testing.T) {
	got := parseRevoked([]byte("\ufeff# people\r\n\n  alice \r\n#bob\nt#1\n\t\nlast"))
	if d := cmp.Diff(map[string]struct{}{"alice": {}, "t#1": {}, "last": {}}, got); d != "" {
		t.Error(d)
	}
}

func TestWhatIsRevokedIsRefusedEvenIfItIsRemembered(t *testing.T) {
	idp := newProvider(t, ec1())
	file := filepath.Join(t.TempDir(), "revoked.txt")
	write(t, file, "# nobody\n")
	a := start(t, Options{
		Issuers: []Issuer{idp.entry()}, RevokedFile: file,
		APIKeys: []APIKey{{Name: "ci", Hash: hashOf("k1"), Subject: "bot"}, {Name: "cd", Hash: hashOf("k2"), Subject: "robot"}},
	})
	// By jti, by subject, by name of the key, by subject of the key.
	creds := map[string]string{"t1": good(idp), "carol": good(idp, "sub", "carol", "jti", "t2"), "ci": "k1", "robot": "k2"}
	people := map[string]*Principal{}
	for entry, raw := range creds {
		p, err := identify(a, raw)
		if err != nil {
			t.Fatal(err)
		}
		people[entry] = p
	}
	for entry := range creds {
		write(t, file, "x\n"+entry+"\n")
		eventually(t, entry+" is refused", func() bool { return a.check(people[entry]) == refusedRevoked })
		for e, raw := range creds {
			p, err := identify(a, raw)
			if e == entry {
				if r := refusalOf(t, p, err); r != refusedRevoked || r.Fault.Code != fault.Unauthenticated {
					t.Errorf("%s: %v", e, r)
				}
			} else if err != nil { // until the file has been read like that twice
				eventually(t, e+" is let in beside "+entry, func() bool { _, err := identify(a, raw); return err == nil })
			}
		}
	}
	fresh := good(idp, "sub", "dave", "jti", nil)
	write(t, file, "dave")
	eventually(t, "a token that was never seen is refused", func() bool {
		_, err := identify(a, fresh)
		return err == error(refusedRevoked)
	})
}

func TestARevokedFileThatIsReplacedOrGoneKeepsItsMeaning(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "revoked.txt")
	write(t, file, "ci\n")
	a := start(t, Options{RevokedFile: file, APIKeys: []APIKey{{Name: "ci", Hash: hashOf("k1"), Subject: "bot"}, {Name: "cd", Hash: hashOf("k2"), Subject: "robot"}}})
	in := func(k string) bool { _, err := identify(a, k); return err == nil }
	eventually(t, "ci is out", func() bool { return !in("k1") && in("k2") })
	write(t, file+".new", "cd\n")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "cd is out instead", func() bool { return in("k1") && !in("k2") })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := a.revoked.read(); err == nil || in("k2") {
		t.Errorf("a file that is gone: %v", err)
	}
	write(t, file, "ci\ncd\n")
	eventually(t, "both are out", func() bool { return !in("k1") && !in("k2") })
	write(t, file, "")
	eventually(t, "nobody is out", func() bool { return in("k1") && in("k2") })
}

func TestARevokedFileBehindAMountedLinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"..1": "ci", "..2": "cd"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "revoked.txt"), text)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip("no links here:", err)
		}
	}
	link("..1", "..data")
	link(filepath.Join("..data", "revoked.txt"), "revoked.txt")
	a := start(t, Options{RevokedFile: filepath.Join(dir, "revoked.txt"), APIKeys: []APIKey{{Name: "ci", Hash: hashOf("k1"), Subject: "bot"}, {Name: "cd", Hash: hashOf("k2"), Subject: "robot"}}})
	in := func(k string) bool { _, err := identify(a, k); return err == nil }
	eventually(t, "ci is out", func() bool { return !in("k1") && in("k2") })
	link("..2", "..tmp")
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "cd is out instead", func() bool { return in("k1") && !in("k2") })
}

func TestWithoutItsRevokedFileNobodyIsLetIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked.txt")
	key := APIKey{Name: "ci", Hash: hashOf("k"), Subject: "bot"}
	a, err := New(Options{RevokedFile: file, APIKeys: []APIKey{key}, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := identify(a, "k")
	if r := refusalOf(t, p, err); r.Fault.Code != fault.IdentityUnavailable {
		t.Errorf("%v", r)
	}
	if err := a.Run(context.Background()); err == nil {
		t.Error("it runs")
	}
	// Read before Run, once.
	write(t, file, "ci")
	p, err = identify(a, "k")
	if r := refusalOf(t, p, err); r != refusedRevoked {
		t.Errorf("%v", r)
	}
	write(t, file, "")
	if _, err := identify(a, "k"); err == nil {
		t.Error("it is read by requests")
	}
	// A reload while the file is away knows what was revoked.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	next, err := New(Options{RevokedFile: file, APIKeys: []APIKey{key}})
	if err != nil {
		t.Fatal(err)
	}
	next.Inherit(a)
	if err := next.Open(); err != nil {
		t.Error(err)
	}
	p, err = identify(next, "k")
	if r := refusalOf(t, p, err); r != refusedRevoked {
		t.Errorf("%v", r)
	}
}

// A file that is written in place is empty for a moment, and holds a part of its
// entries for another. Nobody is let in by that; who is new in it is out at once.
func TestARevokedFileThatIsBeingWrittenLetsNobodyIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked.txt")
	write(t, file, "a\nb\n")
	r := newRevocations(file, slog.New(slog.DiscardHandler))
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text, out string
		again     bool
	}{
		{"a\nb\n", "ab", false},
		{"", "ab", true},
		{"b\n", "ab", true},
		{"b\nc\n", "abc", true},
		{"b\nc\na\n", "abc", false}, // written whole
		{"", "abc", true},
		{"a\nb\nd\n", "abcd", true}, // another file that lacks something
		{"a\nb\nd\n", "abd", false}, // and still does
		{"a\nb\nd\ne\n", "abde", false},
		{"", "abde", true},
		{"a\nb\nd\ne\n", "abde", false},
		{"", "abde", true}, // a doubt of before does not count
		{"c\n", "abcde", true},
		{"b\n", "abcde", true}, // what was there a moment ago
		{"", "abde", true},
		{"", "", false},
	} {
		write(t, file, step.text)
		again, err := r.read()
		if err != nil || again != step.again {
			t.Errorf("%q: again %v, %v", step.text, again, err)
		}
		out := ""
		for _, who := range []string{"a", "b", "c", "d", "e"} {
			if r.hold(&Principal{Subject: who}) {
				out += who
			}
		}
		if out != step.out {
			t.Errorf("%q: out are %q, want %q", step.text, out, step.out)
		}
	}
}

// A file that never lies still does not grow into what it ever held.
func TestARevokedFileThatNeverLiesStillIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked.txt")
	write(t, file, "ci\n")
	r := newRevocations(file, slog.New(slog.DiscardHandler))
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		write(t, file, fmt.Sprintf("x%d\n", i))
		if _, err := r.read(); err != nil {
			t.Fatal(err)
		}
		if n := len(*r.set.Load()); n > 3 || !r.hold(&Principal{Subject: "ci"}) || !r.hold(&Principal{Subject: fmt.Sprintf("x%d", i)}) {
			t.Fatalf("after %d readings %d entries count: %v", i+1, n, *r.set.Load())
		}
	}
}

// Of what the events tell, too: a file that is rewritten all the time keeps out whom
// every version of it names.
func TestARevokedFileThatIsRewrittenKeepsOutWhomItNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "revoked.txt")
	write(t, file, "ci\n")
	a := start(t, Options{RevokedFile: file, APIKeys: []APIKey{{Name: "ci", Hash: hashOf("k1"), Subject: "bot"}}})
	eventually(t, "ci is out", func() bool { _, err := identify(a, "k1"); return err != nil })
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(rand.N(150 * time.Millisecond)):
			}
			w, err := os.Create(file)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(rand.N(40 * time.Millisecond)) // it is empty
			_, err = fmt.Fprintf(w, "x%d\nci\n", i)
			if err = errors.Join(err, w.Close()); err != nil {
				t.Error(err)
			}
		}
	})
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if _, err := identify(a, "k1"); err == nil {
			t.Error("let in while the file is rewritten")
			break
		}
	}
	close(stop)
	writing.Wait()
	write(t, file, "# nobody\n")
	eventually(t, "ci is in", func() bool { _, err := identify(a, "k1"); return err == nil })
}
