package cli

import (
	"context"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

const (
	// maxTrials is how many steps of an answer are tried, the best first, and trialTime how long all of it may take. What is not tried stays as it is.
	maxTrials = 8
	trialTime = 5 * time.Second
)

// tryAdvice has the API server check each step of an answer that changes the job, with the user's own rights. Nothing is changed.
func (o *whyOptions) tryAdvice(ctx context.Context, facts *diagnosis.Facts, report diagnosis.Report) diagnosis.Report {
	if facts.Job.Foreign || facts.Job.Object.UID == "" || len(report.Findings) == 0 {
		return report
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	writer, err := o.factory.newWriter()
	if err != nil {
		return report
	}
	ref := submit.Ref{Namespace: report.Namespace, Name: report.Job, Kind: report.Kind}
	options := submit.EditOptions{Presets: o.factory.presetTexts}
	if options.Render, err = o.renderQuietly(ctx, writer, ref); err != nil {
		return report
	}
	left := maxTrials
	return report.TrySteps(func(step *diagnosis.Step) diagnosis.Trial {
		if !submit.CanTry(step, ref.Name) {
			return diagnosis.Trial{}
		}
		if left--; left < 0 {
			return diagnosis.Trial{}
		}
		trial := writer.TryStep(ctx, ref, step, options, o.factory.Now())
		if len(trial.Refused) > 0 && hasCause(report, reason.CauseOfRefusal(trial.Refused.String())) {
			return diagnosis.Trial{} // it is what else stands against the job, with advice of its own
		}
		return trial
	})
}

// renderQuietly returns the options for the job's objects, without the warnings of a real change.
func (o *whyOptions) renderQuietly(ctx context.Context, writer *submit.Client, ref submit.Ref) (render.Options, error) {
	doc, err := writer.Document(ctx, ref)
	if err != nil {
		return render.Options{}, err
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return render.Options{}, err
	}
	options, _, err := submit.RenderOptions(ctx, reader, []workload.Document{doc}, ref.Namespace)
	return options, err
}

func hasCause(report diagnosis.Report, cause reason.Cause) bool {
	return slices.ContainsFunc(report.Findings, func(f diagnosis.Finding) bool { return f.Cause == cause })
}
