package migrations

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func names(t *testing.T, d Dialect) []string {
	t.Helper()
	entries, err := scripts.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestBothDialectsHaveTheSameMigrations(t *testing.T) {
	lite, full := names(t, SQLite), names(t, Postgres)
	if len(lite) == 0 || !slices.Equal(lite, full) {
		t.Errorf("SQLite has %v, PostgreSQL %v", lite, full)
	}
}

// A migration that takes something away breaks the version that runs beside it
// while the instances of a fleet are replaced one by one.
func TestMigrationsOnlyAdd(t *testing.T) {
	for _, d := range []Dialect{SQLite, Postgres} {
		for _, name := range names(t, d) {
			raw, err := scripts.ReadFile(string(d) + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ToUpper(string(raw))
			for _, word := range []string{"DROP ", "RENAME ", "DELETE ", "+GOOSE DOWN"} {
				if strings.Contains(text, word) {
					t.Errorf("%s/%s holds %s", d, name, word)
				}
			}
		}
	}
}

// modernc.org/sqlite is translated for exactly one version of modernc.org/libc,
// and other modules lift it silently; go.mod excludes what they ask for.
func TestTheDriverGetsTheVersionOfItsRuntimeThatItWasMadeFor(t *testing.T) {
	list := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
		if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	gomod := list("-m", "-f", "{{.GoMod}}", "modernc.org/sqlite")
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-print", gomod).Output()
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == "modernc.org/libc" {
			asked = fields[1]
		}
	}
	if is := list("-m", "-f", "{{.Version}}", "modernc.org/libc"); asked == "" || is != asked {
		t.Errorf("modernc.org/libc is %s; the driver was made for %q", is, asked)
	}
}
