package qualify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-mcp/penstock/internal/durable"
	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
)

func TestAQualificationPasses(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Options{Provider: provider(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"schemaVersion": "penstock.durable-tasks-qualification-result/1"`, `"status": "PASS"`, `"workerEffects": 1`, `"duplicateEffects": 0`,
		`"ownedTemporaryWorkspaceRemoved": true`, `"terminalStatus": "cancelled"`, `"exactlyOnceClaimed": false`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %s in %s", want, out.String())
		}
	}
}

// twisted is a coordinator of which something does not hold.
type twisted struct {
	coordinator
	lease  func(*durable.Grant) (json.RawMessage, error)
	submit func(context.Context, *durable.Submit) (json.RawMessage, error)
	get    func(json.RawMessage) json.RawMessage
	update func(ctx context.Context, id string) (json.RawMessage, error)
}

func (w *twisted) Lease(ctx context.Context, g *durable.Grant) (json.RawMessage, error) {
	if w.lease != nil {
		return w.lease(g)
	}
	return w.coordinator.Lease(ctx, g)
}

func (w *twisted) Submit(ctx context.Context, s *durable.Submit) (json.RawMessage, error) {
	if w.submit != nil {
		return w.submit(ctx, s)
	}
	return w.coordinator.Submit(ctx, s)
}

func (w *twisted) Get(ctx context.Context, who durable.Caller, id string) (json.RawMessage, error) {
	raw, err := w.coordinator.Get(ctx, who, id)
	if err == nil && w.get != nil {
		raw = w.get(raw)
	}
	return raw, err
}

func (w *twisted) Update(ctx context.Context, who durable.Caller, id string, params json.RawMessage) (json.RawMessage, error) {
	if w.update != nil {
		return w.update(ctx, id)
	}
	return w.coordinator.Update(ctx, who, id, params)
}

// replacing is a get that says something else.
func replacing(old, now string) func(json.RawMessage) json.RawMessage {
	return func(raw json.RawMessage) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(string(raw), old, now))
	}
}

func is(s *durable.Submit, name string) bool { return bytes.Contains(s.Task, []byte(`"key-`+name+`"`)) }

func TestEveryCheckFailsWhenWhatItChecksDoesNotHold(t *testing.T) {
	t.Parallel()
	refusal := &durable.Refusal{Code: "PENSTOCK_X", Channel: durable.InvalidParams}
	for name, tc := range map[string]struct {
		fault string // of the provider or its worker
		twist func(w *twisted)
		seams func(s *seams)
		want  Code
		says  string
	}{
		"the provider cannot be started":       {want: Upstream, says: "start"},
		"the provider speaks no tasks":         {fault: "no tasks", want: Discovery, says: "does not speak tasks"},
		"the provider has another tool":        {fault: "another tool", want: Discovery, says: "2 tools"},
		"the provider is not as it was pinned": {fault: "changes", want: Discovery, says: durable.ErrChanged.Error()},
		"the store is no database":             {fault: "spoils the store", want: Router},
		"no lease is granted": {want: Lease, says: "PENSTOCK_X", twist: func(w *twisted) {
			w.lease = func(*durable.Grant) (json.RawMessage, error) {
				return nil, &durable.Refusal{Code: "PENSTOCK_X", Channel: durable.ToolError}
			}
		}},
		"a submission of another schema is refused otherwise": {want: Admission, says: "PENSTOCK_X", twist: func(w *twisted) {
			w.submit = func(context.Context, *durable.Submit) (json.RawMessage, error) { return nil, refusal }
		}},
		"a submission is accepted without a lease": {want: Admission, says: "accepted", twist: func(w *twisted) {
			w.submit = func(ctx context.Context, s *durable.Submit) (json.RawMessage, error) {
				if strings.HasPrefix(s.LeaseID, "00000000") {
					return json.RawMessage(`{"taskId":"pst_1","resultType":"task","status":"working"}`), nil
				}
				return w.coordinator.Submit(ctx, s)
			}
		}},
		"the submission does not reach the provider": {want: Submission, says: "0 submissions", twist: func(w *twisted) {
			w.submit = func(ctx context.Context, s *durable.Submit) (json.RawMessage, error) {
				if is(s, "primary") {
					return nil, refusal
				}
				return w.coordinator.Submit(ctx, s)
			}
		}},
		"the submission is not remembered": {want: Recovery, twist: func() func(w *twisted) {
			var submissions atomic.Int32
			return func(w *twisted) {
				w.submit = func(ctx context.Context, s *durable.Submit) (json.RawMessage, error) {
					if is(s, "primary") && submissions.Add(1) == 2 {
						s.Task = bytes.ReplaceAll(s.Task, []byte("key-primary"), []byte("key-other"))
					}
					return w.coordinator.Submit(ctx, s)
				}
			}
		}()},
		"the connection is another one": {want: Recovery, says: "connection", seams: func(s *seams) {
			s.sources = func(inner durable.Sources) durable.Sources { return renamed{inner} }
		}},
		"the provider does not echo": {fault: "no echo", want: Update},
		"a changed input is accepted": {want: ChangedInput, says: "accepted", twist: func() func(w *twisted) {
			var submissions atomic.Int32
			return func(w *twisted) {
				w.submit = func(ctx context.Context, s *durable.Submit) (json.RawMessage, error) {
					if is(s, "primary") && submissions.Add(1) == 3 {
						return json.RawMessage(`{"taskId":"pst_1","resultType":"task","status":"working"}`), nil
					}
					return w.coordinator.Submit(ctx, s)
				}
			}
		}()},
		"an update is accepted": {want: Update, says: "accepted", twist: func(w *twisted) {
			w.update = func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }
		}},
		"an update is refused, and forwarded": {want: Update, says: "told", seams: func(s *seams) {
			var source durable.Sources
			s.sources = func(inner durable.Sources) durable.Sources {
				source = inner
				return inner
			}
			s.router = func(c coordinator) coordinator {
				return &twisted{coordinator: c, update: func(ctx context.Context, id string) (json.RawMessage, error) {
					from, _ := source.Source("neutral")
					conn, err := from.Connect(ctx)
					if err != nil {
						return nil, err
					}
					conn.Send(ctx, "tasks/update", id, json.RawMessage(`{"taskId":"x"}`), nil)
					return nil, &durable.Refusal{Code: durable.Penstock.Code("TASK_UPDATE_UNSUPPORTED_DURABLE"), Channel: durable.InvalidParams}
				}}
			}
		}},
		"the worker fails":                       {fault: "fails", want: Completion, says: "failed"},
		"the router claims that it has verified": {want: Completion, says: "not_performed", twist: func(w *twisted) { w.get = replacing("not_performed", "performed") }},
		"the worker lies":                        {fault: "lies", want: Artifacts, says: string(artifact.Mismatch)},
		"the worker works twice":                 {fault: "works twice", want: Counts, says: "2 effects"},
		"whatever is written is accepted": {want: Refusals, says: "accepted", seams: func(s *seams) {
			s.judge = func(string, *artifact.Expected) error { return nil }
		}},
		"what is missing is accepted":   {want: Refusals, says: "missing", seams: func(s *seams) { s.judge = blindTo("missing", artifact.Missing) }},
		"what is truncated is accepted": {want: Refusals, says: "truncated", seams: func(s *seams) { s.judge = blindTo("truncated", artifact.ResultInvalid) }},
		"what is swapped is accepted":   {want: Refusals, says: "swapped", seams: func(s *seams) { s.judge = blindTo("swapped", artifact.Mismatch) }},
		"the other half is accepted":    {want: Refusals, says: "primary", seams: func(s *seams) { s.judge = blindTo("primary", artifact.Mismatch) }},
		"somebody cancels in the meantime": {want: Deadline, says: "1 acknowledgements", twist: func(w *twisted) {
			w.submit = func(ctx context.Context, s *durable.Submit) (json.RawMessage, error) {
				raw, err := w.coordinator.Submit(ctx, s)
				if err == nil && is(s, "overdue") {
					var handle seen
					if err := json.Unmarshal(raw, &handle); err != nil {
						return nil, err
					}
					_, err = w.coordinator.Cancel(ctx, s.Caller, handle.ID)
				}
				return raw, err
			}
		}},
		"the worker ends by itself": {fault: "impatient", want: Deadline, says: "1 terminations"},
		"the first poll says nothing of the bound": {want: Deadline, says: "PENSTOCK_TASK_RUNTIME_BOUND_REACHED", twist: func(w *twisted) {
			w.get = replacing("PENSTOCK_TASK_RUNTIME_BOUND_REACHED", "soon")
		}},
		"the provider ignores cancels": {fault: "ignores cancels", want: Cancellation, says: "0 terminations"},
		"the provider ends badly":      {fault: "ends badly", want: Shutdown, says: "for no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := asItIs, Options{Provider: provider(t, tc.fault)}
			if tc.want == Upstream {
				o.Provider = []string{filepath.Join(t.TempDir(), "nobody")}
			}
			if tc.seams != nil {
				tc.seams(&s)
			}
			if tc.twist != nil {
				s.router = func(c coordinator) coordinator {
					w := &twisted{coordinator: c}
					tc.twist(w)
					return w
				}
			}
			r, err := run(t.Context(), o, s)
			var f *Failure
			if r != nil || !errors.As(err, &f) || f.Code != tc.want || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want %s with %q, got %v", tc.want, tc.says, err)
			}
		})
	}
}

// blindTo accepts what should be refused with a code in the folder of that name.
func blindTo(name string, code artifact.Code) func(string, *artifact.Expected) error {
	return func(folder string, want *artifact.Expected) error {
		err := artifact.Verify(folder, want)
		if filepath.Base(folder) == name && artifact.CodeOf(err) == code {
			return nil
		}
		return err
	}
}

// renamed makes every connection another session.
type renamed struct{ durable.Sources }

func (r renamed) Source(key string) (durable.Source, bool) {
	s, ok := r.Sources.Source(key)
	return renamedSource{s}, ok
}

type renamedSource struct{ durable.Source }

func (r renamedSource) Connect(ctx context.Context) (durable.Connection, error) {
	c, err := r.Source.Connect(ctx)
	return renamedConnection{c, durable.NewSessionID(durable.Penstock)}, err
}

type renamedConnection struct {
	durable.Connection
	session string
}

func (r renamedConnection) Session() string { return r.session }

func TestAWorkspaceThatStaysIsAFailure(t *testing.T) {
	t.Parallel()
	s := asItIs
	var kept string
	s.remove = func(folder string) error {
		kept = folder
		return nil
	}
	r, err := run(t.Context(), Options{Provider: provider(t, "")}, s)
	var f *Failure
	if r != nil || !errors.As(err, &f) || f.Code != Cleanup {
		t.Errorf("%v, %v", r, err)
	}
	if err := asItIs.remove(kept); err != nil {
		t.Error(err)
	}
}

func TestAQualificationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if r, err := Run(ctx, Options{Provider: provider(t, "")}); r != nil || err == nil {
		t.Errorf("%v, %v", r, err)
	}
}
