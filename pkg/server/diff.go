package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"g8s.host/gpu-scheduler/pkg/submit"
)

type diffInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of documents that name none; default without it"`
	Body      struct {
		YAMLContent string `json:"yamlContent" minLength:"1" doc:"One or more documents as gpuctl reads them"`
	}
}

// Difference is what applying documents would change.
type Difference struct {
	Differs   bool             `json:"differs"`
	Diff      string           `json:"diff" doc:"All that would change, as gpuctl diff prints it"`
	Documents []DocumentChange `json:"documents"`
	Warnings  []string         `json:"warnings" doc:"What this cluster cannot fulfil as written, or could never fulfil with the nodes it has"`
}

// DocumentChange is what applying one document would do.
type DocumentChange struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Status    string `json:"status" enum:"created,configured,unchanged"`
	Diff      string `json:"diff" doc:"A unified diff of YAML; of a pool, the labels of nodes"`
	Replace   bool   `json:"replace,omitempty" doc:"Kubernetes does not make this change in place: only apply with replace makes it, and the job starts over"`
}

type diffOutput struct{ Body Difference }

func (s *Server) diffRoutes() {
	registerRoute(s, route{method: http.MethodPost, path: Root + "/diff", id: "diff", tag: "documents",
		summary: "What applying YAML would change, as the API server would store it; nothing is changed",
		detail:  "Needs the rights to make the changes, as the API server is asked whether it would.",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.diffDocuments)
}

func (s *Server) diffDocuments(ctx context.Context, in *diffInput) (*diffOutput, error) {
	docs, err := s.parseSome(ctx, in.Body.YAMLContent, liveDocumentIn(in.Namespace))
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	out := &diffOutput{Body: Difference{Documents: []DocumentChange{}, Warnings: []string{}}}
	var text strings.Builder
	for _, doc := range docs {
		result, warnings, err := s.diffOne(ctx, writer, doc, in.Namespace)
		var immutable *submit.ImmutableError
		if err != nil && !errors.As(err, &immutable) {
			return nil, err
		}
		out.Body.Documents = append(out.Body.Documents, DocumentChange{
			Kind: string(doc.Kind), Name: doc.Name, Namespace: result.Ref.Namespace,
			Status: string(result.Action), Diff: result.Diff, Replace: immutable != nil,
		})
		out.Body.Warnings = append(out.Body.Warnings, warnings...)
		out.Body.Differs = out.Body.Differs || result.Diff != ""
		text.WriteString(result.Diff)
	}
	out.Body.Diff = text.String()
	return out, nil
}

// diffOne applies one document as a dry run. It shows changes that would need force.
func (s *Server) diffOne(ctx context.Context, writer *submit.Client, doc document, namespace string) (submit.Result, []string, error) {
	switch {
	case doc.Pool != nil:
		result, _, err := writer.ApplyPool(ctx, doc.Pool, submit.PoolOptions{Force: true, Overwrite: true, DryRun: true})
		return result, nil, err
	case doc.Reservation != nil:
		result, err := writer.ApplyReservation(ctx, doc.Reservation, submit.ReservationOptions{Now: s.options.Now(), DryRun: true})
		return result, nil, err
	case doc.Quota != nil:
		result, err := writer.ApplyQuota(ctx, doc.Quota, submit.QuotaOptions{DryRun: true})
		return result, nil, err
	}
	rendered, err := s.renderJob(ctx, doc, namespace)
	if err != nil {
		return submit.Result{}, nil, err
	}
	result, err := writer.Apply(ctx, rendered.objects, submit.ApplyOptions{DryRun: true, Render: rendered.options})
	return result, rendered.warnings, err
}
