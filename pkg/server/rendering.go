package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// rendering is a job rendered for this cluster.
type rendering struct {
	// objects are the objects of the job, signed by the caller. The first one owns the others.
	objects  []client.Object
	options  render.Options
	warnings []string
}

// renderJob renders a job for this cluster. The submitter is the caller, whatever the YAML says.
func (s *Server) renderJob(ctx context.Context, doc document, namespace string) (*rendering, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if doc.GeneratesName() {
		return nil, invalidErrorf("job.generate-name is for POST %s/jobs, which makes another job each time: a job that is there is found by its job.name", Root)
	}
	out := &rendering{}
	if out.options, out.warnings, err = renderOptions(ctx, []document{doc}, namespace); err != nil {
		return nil, err
	}
	var more []render.Warning
	if out.objects, more, err = render.Objects(doc, out.options); err != nil {
		return nil, invalidErrorf("%v", err)
	}
	for _, warning := range more {
		out.warnings = append(out.warnings, warning.String())
	}
	for _, misfit := range s.findMisfits(ctx, []document{doc}) {
		out.warnings = append(out.warnings, misfit.text)
	}
	submit.SetSubmitter(out.objects[0], caller.User.GetName())
	return out, nil
}

// renderOptions returns the cluster's rendering options for documents, as far as the caller may read them.
func renderOptions(ctx context.Context, docs []document, namespace string) (render.Options, []string, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return render.Options{}, nil, err
	}
	options, told, err := submit.RenderOptions(ctx, inventory.NewReader(caller.Kubernetes), docs, cmp.Or(namespace, defaultNamespace))
	var warnings []string
	for _, warning := range told {
		warnings = append(warnings, warning.String())
	}
	return options, warnings, err
}

// storedRenderOptions returns the rendering options for an existing job.
func (s *Server) storedRenderOptions(ctx context.Context, writer *submit.Client, ref submit.Ref) (render.Options, error) {
	top, err := writer.TopObject(ctx, ref)
	if err != nil {
		return render.Options{}, err
	}
	docs, err := s.storedDocuments(ctx, top.GetAnnotations()[names.AnnotationSubmitted])
	if err != nil {
		return render.Options{}, err
	}
	options, _, err := renderOptions(ctx, docs, ref.Namespace)
	return options, err
}

// storedDocuments parses the YAML that a job was made from, as far as it is valid, in a slot of the caller.
func (s *Server) storedDocuments(ctx context.Context, text string) ([]document, error) {
	leave, err := s.acquireReadSlot(ctx, text)
	if err != nil {
		return nil, err
	}
	defer leave()
	docs, _ := workload.Parse(sourceName, []byte(text))
	return docs, nil
}

// misfit is a job that no node of the cluster could ever hold.
type misfit struct {
	doc  document
	text string
}

// findMisfits finds the jobs that no node could ever hold. Like gpuctl, it returns nothing if the caller may not list nodes, if there are no nodes yet,
// or if a pool in the same request may add nodes.
func (s *Server) findMisfits(ctx context.Context, docs []document) []misfit {
	view, err := s.fleetView(ctx)
	if err != nil || slices.ContainsFunc(docs, func(doc document) bool { return doc.Pool != nil }) {
		return nil
	}
	offers := view.Offers()
	if len(offers) == 0 {
		return nil
	}
	var out []misfit
	for _, doc := range docs {
		if doc.Job == nil {
			continue
		}
		if why := diagnosis.ExplainMisfit(&doc.Job.Resources, offers); len(why) > 0 {
			text := fmt.Sprintf("%s/%s will wait for nodes that are not there: %s", doc.Kind, doc.Name, why)
			out = append(out, misfit{doc: doc, text: text})
		}
	}
	return out
}
