package qualify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-mcp/penstock/internal/qualify/artifact"
	"github.com/penstock-mcp/penstock/internal/qualify/neutral"
)

// fixture is a job that has ended, and its handle.
type fixture struct {
	job  *job
	task *seen
}

// refuseArtifacts is check 8: what a worker wrote under another identity, and
// what was altered behind it, is refused, each for its own reason.
func (q *qualification) refuseArtifacts(ctx context.Context) error {
	altered, err := q.fixture(ctx, "altered", true)
	if err != nil {
		return err
	}
	if err := q.refused(altered, artifact.Mismatch); err != nil {
		return err
	}
	q.e.Artifacts.ExitZero = RefusedExit{ExitSuccess: true, Accepted: false, Code: artifact.Mismatch}
	primary := &fixture{q.primary, q.task}
	for _, m := range []struct {
		name     string
		mutation string
		alter    func(folder string) error
		want     artifact.Code
		evidence *RefusedAlteration
	}{
		{"missing", "manifest-removed", func(folder string) error {
			return os.Remove(filepath.Join(folder, neutral.ManifestFile))
		}, artifact.Missing, &q.e.Artifacts.Missing},
		{"truncated", "result-truncated", truncate, artifact.ResultInvalid, &q.e.Artifacts.Truncated},
		{"swapped", "result-swapped", func(folder string) error {
			return exchange(folder, q.folder(q.primary))
		}, artifact.Mismatch, &q.e.Artifacts.Swapped},
	} {
		f, err := q.fixture(ctx, m.name, false)
		if err != nil {
			return err
		}
		if err := q.seams.judge(q.folder(f.job), f.job.expected(f.task)); err != nil {
			return failed(Artifacts, fmt.Errorf("%s, before it was altered: %w", m.name, err))
		}
		if err := m.alter(q.folder(f.job)); err != nil {
			return failed(Refusals, fmt.Errorf("%s: %w", m.name, err))
		}
		if err := q.refused(f, m.want); err != nil {
			return err
		}
		*m.evidence = RefusedAlteration{ExitSuccess: true, Mutation: m.mutation, Accepted: false, Code: m.want}
	}
	return q.refused(primary, artifact.Mismatch) // the other half of the exchange
}

// fixture has a job done. That its task completes says that the worker has ended
// with 0.
func (q *qualification) fixture(ctx context.Context, name string, alter bool) (*fixture, error) {
	j, err := q.job(wish{name: name, input: fmt.Sprintf(`{"b":%q,"a":[]}`, name), deadline: 20 * time.Second, alter: alter})
	if err != nil {
		return nil, failed(Refusals, err)
	}
	within, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	handle, err := q.caller.submit(within, j)
	if err != nil {
		return nil, failed(Refusals, fmt.Errorf("%s: %w", name, err))
	}
	s, err := q.caller.await(ctx, handle.ID, requestTime)
	if err != nil {
		return nil, failed(Refusals, fmt.Errorf("%s: %w", name, err))
	}
	if s.Status != "completed" {
		return nil, failedf(Refusals, "%s: the task is %s (%s)", name, s.Status, s.Message)
	}
	return &fixture{j, s}, nil
}

// refused has the artifacts of a fixture judged, which must be refused.
func (q *qualification) refused(f *fixture, want artifact.Code) error {
	if err := q.seams.judge(q.folder(f.job), f.job.expected(f.task)); artifact.CodeOf(err) != want {
		return failed(Refusals, fmt.Errorf("%s: want %s, got %w", f.job.name, want, orAccepted(err)))
	}
	return nil
}

func truncate(folder string) error {
	file := filepath.Join(folder, neutral.ResultFile)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, info.Size()/2)
}

// exchange puts the result of each folder into the other.
func exchange(a, b string) error {
	one, other, aside := filepath.Join(a, neutral.ResultFile), filepath.Join(b, neutral.ResultFile), filepath.Join(a, "aside")
	for _, move := range [][2]string{{one, aside}, {other, one}, {aside, other}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			return err
		}
	}
	return nil
}
