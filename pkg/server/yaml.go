package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// sourceName is what diagnostics call a YAML document of a request.
const sourceName = "yamlContent"

// parse reads the documents of a request, or returns a refusal with every error and its place.
func parse(content string) ([]document, []Detail, error) {
	docs, diagnostics := workload.Parse(sourceName, []byte(content))
	details := problems(diagnostics)
	if !diagnostics.HasErrors() {
		return docs, details, nil
	}
	first := diagnostics[slices.IndexFunc(diagnostics, func(d workload.Diagnostic) bool {
		return d.Severity == workload.SeverityError
	})]
	return nil, details, &refusal{
		status: http.StatusUnprocessableEntity, code: "InvalidYAML", details: details,
		text: fmt.Sprintf("the YAML is not valid: line %d, column %d: %s", first.Line, first.Column, first.Message),
	}
}

// parseOne reads a request's only document, which must be a job or whatever is asked for.
func parseOne(content, what string, is func(document) bool) (document, error) {
	docs, _, err := parse(content)
	switch {
	case err != nil:
		return document{}, err
	case len(docs) != 1:
		return document{}, invalidf("the YAML holds %d documents, want one %s: send several to %s/jobs/batch",
			len(docs), what, Root)
	case !is(docs[0]):
		return document{}, invalidf("the YAML is of the kind %s, want a %s: pools go to %s/pools, quotas to %s/quotas",
			docs[0].Kind, what, Root, Root)
	}
	return docs[0], nil
}

// document is one document of a request.
type document = workload.Document

func isJob(doc document) bool { return doc.Job != nil }

// renderOptions are what the rendering of documents depends on in this cluster, as far as the caller may read it.
func renderOptions(ctx context.Context, docs []document, namespace string) (render.Options, []string, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return render.Options{}, nil, err
	}
	return submit.RenderOptions(ctx, inventory.NewReader(caller.Kubernetes), docs, cmp.Or(namespace, defaultNamespace))
}

// renderOptionsOf are those of a job that is there.
func renderOptionsOf(ctx context.Context, writer *submit.Client, ref submit.Ref) (render.Options, error) {
	top, err := writer.Top(ctx, ref)
	if err != nil {
		return render.Options{}, err
	}
	docs, _ := workload.Parse(sourceName, []byte(top.GetAnnotations()[names.AnnotationSubmitted]))
	options, _, err := renderOptions(ctx, docs, ref.Namespace)
	return options, err
}
