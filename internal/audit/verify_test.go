package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestAnUntouchedFileVerifies(t *testing.T) {
	for _, key := range []string{"", "secret"} {
		file := here(t)
		chronicle(t, Options{File: file, Key: []byte(key), Instance: "i1"}, 0, 20)
		s := chronicle(t, Options{File: file, Key: []byte(key), Instance: "i1"}, 20, 5)
		r := verify(t, s, key, "")
		wantOK(t, r)
		if r.Records != 25 || r.Chains != 2 || r.Files != 1 || len(r.Notes) != 0 {
			t.Errorf("report: %+v", r)
		}
		wantOK(t, verify(t, s, key, strings.ToUpper(r.LastHash)))
		if !strings.HasSuffix(s, `"hash":"`+r.LastHash+"\"}\n") {
			t.Errorf("the last hash %s is not that of the last line", r.LastHash)
		}
	}
}

// The format is told in the package comment; whoever has only that can check a file.
func TestTheHashIsTheOneThatIsDocumented(t *testing.T) {
	s := chronicle(t, Options{File: here(t), Key: []byte("k")}, 0, 3)
	previous := ""
	for i, line := range split(s) {
		line = strings.TrimSuffix(line, "\n")
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if m["seq"] != float64(i) {
			t.Errorf("line %d has the number %v", i+1, m["seq"])
		}
		h := hmac.New(sha256.New, []byte("k"))
		h.Write([]byte(previous + strings.Replace(line, fmt.Sprintf(`,"hash":"%s"`, m["hash"]), "", 1)))
		if previous = hex.EncodeToString(h.Sum(nil)); previous != m["hash"] {
			t.Fatalf("line %d: the hash is %v, computed %s", i+1, m["hash"], previous)
		}
	}
}

func TestEveryKindOfTamperingIsFound(t *testing.T) {
	for _, key := range []string{"", "secret"} {
		file := here(t)
		chronicle(t, Options{File: file, Key: []byte(key)}, 0, 10) // lines 1 to 12
		whole := split(chronicle(t, Options{File: file, Key: []byte(key)}, 10, 10))
		for _, c := range []struct {
			what string
			edit func(l []string) []string
			line int
			says string
			one  bool // nothing else is reported
		}{
			{"a changed line", func(l []string) []string { l[4] = strings.Replace(l[4], "alice", "malice", 1); return l }, 5, "changed", true},
			{"a changed number", func(l []string) []string { l[4] = strings.Replace(l[4], `"seq":4,`, `"seq":9,`, 1); return l }, 5, "missing", true},
			{"a changed hash", func(l []string) []string { l[4] = rehash(l[4]); return l }, 5, "changed", true},
			{"a changed last line", func(l []string) []string { l[23] = strings.Replace(l[23], "true", "true ", 1); return l }, 24, "changed", true},
			{"a removed line", func(l []string) []string { return slices.Delete(l, 4, 5) }, 5, "1 record is missing", true},
			{"several removed lines", func(l []string) []string { return slices.Delete(l, 4, 8) }, 5, "4 records are missing", true},
			{"the line before a header removed", func(l []string) []string { return slices.Delete(l, 11, 12) }, 12, "does not follow", true},
			{"a removed first header", func(l []string) []string { return l[1:] }, 1, "header", true},
			{"a removed second header", func(l []string) []string { return slices.Delete(l, 12, 13) }, 13, "close record", false},
			{"a whole run removed", func(l []string) []string { return slices.Delete(l, 1, 12) }, 2, "does not follow", true},
			{"two lines swapped", func(l []string) []string { l[4], l[5] = l[5], l[4]; return l }, 6, "out of order", false},
			{"a line moved to the end", func(l []string) []string { return append(slices.Delete(l, 4, 5), l[4]) }, 5, "missing", false},
			{"a repeated line", func(l []string) []string { return slices.Insert(l, 5, l[4]) }, 6, "repeated", true},
			{"a repeated stretch", func(l []string) []string { return slices.Insert(l, 8, l[3:8]...) }, 9, "repeated", true},
			{"a repeated header", func(l []string) []string { return slices.Insert(l, 1, l[0]) }, 2, "does not follow", false},
			{"an inserted line", func(l []string) []string {
				return slices.Insert(l, 4, strings.Replace(l[4], "alice", "bob", 1))
			}, 5, "changed or inserted", true},
			{"an inserted text", func(l []string) []string { return slices.Insert(l, 4, "nothing happened\n") }, 5, "not a whole record", true},
			{"an empty line", func(l []string) []string { return slices.Insert(l, 4, "\n") }, 5, "not a whole record", true},
			{"a torn line", func(l []string) []string { l[4] = l[4][:50] + "\n"; return l }, 5, "not a whole record", false},
			{"two lines joined", func(l []string) []string { l[4] = strings.TrimSuffix(l[4], "\n"); return l }, 5, "changed", false},
			{"a carriage return", func(l []string) []string { l[4] = strings.Replace(l[4], "\n", "\r\n", 1); return l }, 5, "not a whole record", false},
			{"a header's instance", func(l []string) []string { l[0] = strings.Replace(l[0], `"instance":"`, `"instance":"x`, 1); return l }, 1, "header", true},
			{"a header's previous", func(l []string) []string {
				l[12] = strings.Replace(l[12], `"previous":"`+hashOf(l[11]), `"previous":"`, 1)
				return l
			}, 13, "header", false},
			{"a header's hash", func(l []string) []string { l[12] = rehash(l[12]); return l }, 13, "header", true},
			{"a header that says keyed", func(l []string) []string {
				l[0] = strings.Replace(strings.Replace(l[0], `"keyed":false`, `"keyed":X`, 1), `"keyed":true`, `"keyed":false`, 1)
				l[0] = strings.Replace(l[0], `"keyed":X`, `"keyed":true`, 1)
				return l
			}, 1, "keyed", false},
			{"a torn end", func(l []string) []string { l[23] = l[23][:40]; return l }, 24, "not a whole record", true},
			{"the last line end cut", func(l []string) []string { l[23] = strings.TrimSuffix(l[23], "\n"); return l }, 24, "torn line", true},
			{"nothing left", func([]string) []string { return nil }, 0, "empty", true},
		} {
			t.Run(c.what+" "+key, func(t *testing.T) {
				r := verify(t, strings.Join(c.edit(slices.Clone(whole)), ""), key, "")
				wantProblem(t, r, c.line, c.says)
				if c.one && len(r.Problems) != 1 {
					t.Errorf("more than one problem: %v", r.Problems)
				}
			})
		}
	}
}

func hashOf(line string) string { return line[len(line)-3-hashDigits : len(line)-3] }

// rehash changes the hash of a line.
func rehash(line string) string {
	h := hashOf(line)
	other := "0" + h[1:]
	if other == h {
		other = "1" + h[1:]
	}
	return strings.Replace(line, h+`"}`, other+`"}`, 1)
}

func TestAWrongKeyIsFoundOnceAndNotForEveryLine(t *testing.T) {
	s := chronicle(t, Options{File: here(t), Key: []byte("right")}, 0, 300)
	r := verify(t, s, "wrong", "")
	wantProblem(t, r, 1, "the key is another")
	if len(r.Problems) != 1 {
		t.Errorf("problems: %v", r.Problems)
	}
	r = verify(t, s, "", "")
	wantProblem(t, r, 1, "without the key")
	if len(r.Problems) != 1 || r.Records != 300 {
		t.Errorf("without a key: %+v", r)
	}
}

func TestAChainThatAnybodyCanMakeDoesNotPassForAKeyedOne(t *testing.T) {
	s := chronicle(t, Options{File: here(t)}, 0, 3)
	wantProblem(t, verify(t, s, "secret", ""), 1, "not keyed")
}

func TestLinesCutOffAtTheEndAreMissedByTheExpectedHashOnly(t *testing.T) {
	l := split(chronicle(t, Options{File: here(t)}, 0, 10))
	last, cut := hashOf(l[len(l)-1]), strings.Join(l[:6], "")
	r := verify(t, cut, "", "")
	wantOK(t, r)
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0].Message, "without a close record") {
		t.Errorf("notes: %v", r.Notes)
	}
	wantProblem(t, verify(t, cut, "", last), 6, "removed at the end")
	wantProblem(t, verify(t, strings.Join(l, ""), "", hashOf(l[5])), len(l), "f:6")
}

func TestProblemsAreBoundedAndCounted(t *testing.T) {
	l := split(chronicle(t, Options{File: here(t)}, 0, 400))
	for i := 1; i < len(l); i++ {
		l[i] = strings.Replace(l[i], "alice", "eve", 1)
	}
	r := verify(t, strings.Join(l, ""), "", "")
	if len(r.Problems) != maxProblems || r.More != 300 {
		t.Errorf("%d problems and %d more", len(r.Problems), r.More)
	}
}

func TestALineWithoutEndDoesNotFillTheMemory(t *testing.T) {
	l := split(chronicle(t, Options{File: here(t)}, 0, 3))
	s := l[0] + strings.Repeat("x", 3*maxLine) + "\n" + strings.Join(l[1:], "")
	wantProblem(t, verify(t, s, "", ""), 2, "not a whole record")
}

// A random change of one byte is always found.
func TestNoChangeOfAByteIsMissed(t *testing.T) {
	for _, key := range []string{"", "k"} {
		file := here(t)
		chronicle(t, Options{File: file, Key: []byte(key)}, 0, 3)
		s := []byte(chronicle(t, Options{File: file, Key: []byte(key)}, 3, 3))
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range s {
			was := s[i]
			for s[i] == was {
				s[i] = []byte{byte(rng.UintN(256)), '\n', '0', '"'}[rng.UintN(4)]
			}
			if r := verify(t, string(s), key, ""); r.OK() {
				t.Fatalf("seed %d: byte %d, %q to %q, is not found", seed, i, was, s[i])
			}
			s[i] = was
		}
	}
}

func FuzzVerify(f *testing.F) {
	file := here(f)
	chronicle(f, Options{File: file, Key: []byte("k")}, 0, 4)
	valid := chronicle(f, Options{File: file, Key: []byte("k")}, 4, 4)
	f.Add([]byte(valid), uint32(0), byte('x'))
	f.Add([]byte("{\"seq\":0,\n\n"), uint32(900), byte('\n'))
	f.Fuzz(func(t *testing.T, text []byte, at uint32, b byte) {
		if _, err := Verify(strings.NewReader(string(text)), "f", nil, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(strings.NewReader(string(text)), "f", []byte("k"), valid[:64]); err != nil {
			t.Fatal(err)
		}
		changed := []byte(valid)
		changed[int(at)%len(changed)] = b
		r := verify(t, string(changed), "k", "")
		if string(changed) != valid && r.OK() {
			t.Fatalf("byte %d changed to %q is not found", int(at)%len(changed), b)
		}
	})
}
