package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestSecretCannotPrintItself(t *testing.T) {
	const value = "hunter2"
	holder := struct {
		One  Secret
		Many []Secret
		By   map[string]Secret
		To   *Secret
	}{NewSecret(value), []Secret{NewSecret(value)}, map[string]Secret{"k": NewSecret(value)}, new(Secret)}
	*holder.To = NewSecret(value)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		fmt.Fprintf(&out, verb, holder)
		fmt.Fprintf(&out, verb, holder.One)
		fmt.Fprintf(&out, verb, holder.To)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "s", holder.One, "h", holder)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "s", holder.One, "h", holder)
	asJSON, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(asJSON)
	out.Write(asYAML)
	fmt.Fprint(&out, errors.Join(fmt.Errorf("wrapped: %v", holder.One)))
	text := out.String()
	if strings.Contains(text, value) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", value)) {
		t.Errorf("the secret is printed:\n%s", text)
	}
	if !strings.Contains(text, hidden) {
		t.Error("nothing stands in the place of the secret")
	}
	if holder.One.Reveal() != value {
		t.Error("Reveal does not hand the value out")
	}
}

func TestStoreHidesItsPassword(t *testing.T) {
	store, err := ParseStore("postgres://u:hunter2@db:5432/penstock?password=hunter2")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %s", store, store, store, store.LogValue())
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "postgres://db:5432/penstock") {
		t.Errorf("the store prints %s", text)
	}
	if store.Engine() != EnginePostgres || store.Path() != "" || !strings.Contains(store.Reveal(), "hunter2") {
		t.Errorf("engine %q, path %q", store.Engine(), store.Path())
	}
}

func TestStoreAddressesOfEachEngine(t *testing.T) {
	for text, want := range map[string][2]string{
		"sqlite:penstock.db": {EngineSQLite, "penstock.db"}, "sqlite:/a/b:c.db": {EngineSQLite, "/a/b:c.db"},
		"memory:": {EngineMemory, ""}, "postgresql://h/d": {EnginePostgres, ""},
	} {
		store, err := ParseStore(text)
		if err != nil || store.Engine() != want[0] || store.Path() != want[1] {
			t.Errorf("%s: %q %q %v", text, store.Engine(), store.Path(), err)
		}
	}
	for _, text := range []string{"", "sqlite:", "memory:x", "redis://h", "penstock.db", "postgres://h:x:y/"} {
		if _, err := ParseStore(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
