package submit

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// RenamedError says that the new YAML of a job describes another job.
type RenamedError struct{ Ref Ref }

func (e *RenamedError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *RenamedError) Message() phrase.Text {
	return phrase.Textf("a job keeps its name, its kind and its namespace: this is no longer %s %q of namespace %s\n"+
		"To have another job, create it from a file: gpuctl export %s", e.Ref.Kind, e.Ref.Name, e.Ref.Namespace, e.Ref.Name)
}

// Rewrite changes the submitted YAML of a job and applies it: in place if Kubernetes allows it, else by replacing a job that waits or is paused. A
// running job starts over only if the options allow it; otherwise the error is a [RunningError]. The YAML that rewrite returns must be valid.
func (c *Client) Rewrite(ctx context.Context, ref Ref, rewrite func(workload.Document) (string, error), opts EditOptions) (Result, error) {
	return c.changeSource(ctx, ref, func(ctx context.Context, c *Client, top client.Object, doc workload.Document) (Result, error) {
		source, err := rewrite(doc)
		if err != nil || source == doc.Source {
			return newResult(top, ActionUnchanged), err
		}
		after, err := parseSource(top, source)
		if err != nil {
			return Result{}, err
		}
		if !isDocumentOf(after, top) {
			return Result{}, &RenamedError{Ref: newResult(top, "").Ref}
		}
		if after, err = fillPreset(ctx, after, doc, opts); err != nil {
			return Result{}, err
		}
		opts.Render.Namespace = top.GetNamespace()
		objects, _, err := render.Objects(after, opts.Render)
		if err != nil {
			return Result{}, err
		}
		return c.applyRewrite(ctx, top, objects, opts)
	})
}

// applyRewrite makes a job match its new YAML.
func (c *Client) applyRewrite(ctx context.Context, top client.Object, objects []client.Object, opts EditOptions) (Result, error) {
	apply := ApplyOptions{Force: true, DryRun: opts.DryRun, Render: opts.Render}
	apply.approveRestart = func(ctx context.Context, live client.Object) error { return c.checkEditable(ctx, live, opts) }
	result, err := c.Apply(ctx, objects, apply)
	if !errors.As(err, new(*ImmutableError)) {
		return result, err
	}
	if err := c.checkEditable(ctx, top, opts); err != nil {
		return Result{}, err
	}
	apply.Replace = true
	return c.Apply(ctx, objects, apply)
}

// fillPreset fills in the preset of a job, as its creation does. If an unchanged preset no longer exists, other fields can still be changed: the
// job's YAML has the filled values, and is refused if it lacks what it needs.
func fillPreset(ctx context.Context, after, before workload.Document, opts EditOptions) (workload.Document, error) {
	if after.Job == nil || after.Job.Resources.Preset == "" {
		return after, nil
	}
	var texts map[string]string
	if opts.Presets != nil {
		var err error
		if texts, err = opts.Presets(ctx); err != nil {
			return after, err
		}
	}
	preset := after.Job.Resources.Preset
	if _, known := texts[preset]; !known && preset == before.Job.Resources.Preset {
		if _, diagnostics := workload.ParseFilled([]byte(after.Source)); !diagnostics.HasErrors() {
			return after, nil
		}
	}
	return jobplan.FillPresetAgain(before, after, texts)
}
