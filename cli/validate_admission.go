package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// checkAdmission has the cluster check the jobs as gpuctl create would send them, and reports every one that it would refuse. A cluster that does not
// answer, and rights that the user lacks, are no mistakes of a file.
func (o *validateOptions) checkAdmission(ctx context.Context, docs []submission) error {
	writer, err := o.factory.newWriter()
	if err != nil {
		return nil // there is no cluster to ask
	}
	stop := startProgress(o.factory.IO, phrase.Textf("Asking the cluster whether it takes the jobs"))
	refusals := o.findRefusals(ctx, writer, docs)
	stop()
	for _, refusal := range refusals {
		position := refusal.doc.positionPrefix()
		says := errorMessage(refusal.err).Localize(o.factory.outputLanguage())
		o.factory.IO.printErr("%serror: %v", position, strings.TrimPrefix(says, position)) // rendering names it itself
	}
	if len(refusals) > 0 {
		return usageErrorf("%s: the cluster refuses the job or its pods; nothing was done", errorCountText(len(refusals)))
	}
	return nil
}

// refusedDocument is a document that the cluster would refuse.
type refusedDocument struct {
	doc submission
	err error
}

// findRefusals asks for each job. It ends at the first that the cluster does not answer for.
func (o *validateOptions) findRefusals(ctx context.Context, writer *submit.Client, docs []submission) []refusedDocument {
	var out []refusedDocument
	for _, doc := range docs {
		if doc.Job == nil || doc.Job.Workdir != "" { // its folder is packed by create alone
			continue
		}
		quiet := *o.factory
		quiet.IO.ErrOut = io.Discard // the warnings of rendering have been given, or are create's
		m := &manifests{factory: &quiet, unsent: true}
		creations, err := m.renderDocuments(ctx, []submission{doc})
		if err == nil {
			_, err = writer.DryRun(ctx, creations[0].objects)
		}
		switch {
		case ctx.Err() != nil:
			return out
		case isMistake(err):
			out = append(out, refusedDocument{doc, err})
		}
	}
	return out
}

// isMistake reports whether an error is about what a document says, and not about rights, names that are taken or quotas that are used up for now.
func isMistake(err error) bool {
	var short *submit.QuotaError
	_, _, policy := submit.PolicyRefusal(err)
	switch {
	case err == nil:
		return false
	case errors.As(err, &short):
		return short.Excess.Never
	case policy, apierrors.IsInvalid(err), exitCode(err) == exitUsage, isA[*submit.PodsRefusedError](err):
		return true
	}
	return reason.RefusedByWebhook.Pattern.MatchString(err.Error())
}
