package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

type validateInput struct {
	Body struct {
		YAMLContent string `json:"yamlContent" minLength:"1" doc:"One or more documents as gpuctl reads them"`
	}
}

// Validation is the result of checking a YAML file.
type Validation struct {
	Valid       bool           `json:"valid"`
	Documents   []DocumentItem `json:"documents" doc:"The documents without errors"`
	Diagnostics []Detail       `json:"diagnostics" doc:"Every error and warning with its place"`
}

// DocumentItem is a document of a file.
type DocumentItem struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Line      int    `json:"line"`
}

type validateOutput struct{ Body Validation }

type renderInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of documents that name none; default without it"`
	Body      struct {
		YAMLContent string `json:"yamlContent" minLength:"1" doc:"One or more documents as gpuctl reads them"`
	}
}

// Rendering is what documents become in Kubernetes.
type Rendering struct {
	Objects  []map[string]any `json:"objects" doc:"The objects, in the order in which they are created"`
	YAML     string           `json:"yaml" doc:"The same as YAML, as gpuctl render prints it"`
	Warnings []string         `json:"warnings" doc:"What became of fields that this cluster cannot fulfil as written"`
}

type renderOutput struct{ Body Rendering }

func (s *Server) documentRoutes() {
	registerRoute(s, route{method: http.MethodPost, path: Root + "/validate", id: "validate", tag: "documents",
		summary: "Check YAML, and report every problem with its line and column",
		anyone:  true,
		detail: "YAML with errors is no failure of the request: `valid` says it. To who may list nodes, a warning tells of a job " +
			"that no node could ever hold."}, s.validateDocuments)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/render", id: "render", tag: "documents",
		anyone:  true,
		summary: "The Kubernetes objects that YAML becomes in this cluster; nothing is created"}, s.renderDocuments)
}

func (s *Server) validateDocuments(ctx context.Context, in *validateInput) (*validateOutput, error) {
	docs, details, err := s.parseDocuments(ctx, in.Body.YAMLContent)
	var refused *refusal
	if err != nil && (!errors.As(err, &refused) || refused.code != codeInvalidYAML) {
		return nil, err
	}
	out := &validateOutput{Body: Validation{Valid: err == nil, Documents: []DocumentItem{}, Diagnostics: details}}
	for _, doc := range docs {
		out.Body.Documents = append(out.Body.Documents, DocumentItem{
			Kind: string(doc.Kind), Name: doc.Name, Namespace: doc.Namespace, Line: doc.Line,
		})
	}
	for _, misfit := range s.findMisfits(ctx, docs) {
		out.Body.Diagnostics = append(out.Body.Diagnostics, Detail{
			Message: misfit.text, Line: misfit.doc.Line, Severity: string(workload.SeverityWarning),
		})
	}
	return out, nil
}

func (s *Server) renderDocuments(ctx context.Context, in *renderInput) (*renderOutput, error) {
	docs, err := s.parseSome(ctx, in.Body.YAMLContent, noLiveDocument)
	if err != nil {
		return nil, err
	}
	options, warnings, err := renderOptions(ctx, docs, in.Namespace)
	if err != nil {
		return nil, err
	}
	options.Now = s.options.Now()
	for _, misfit := range s.findMisfits(ctx, docs) {
		warnings = append(warnings, misfit.text)
	}
	out := &renderOutput{Body: Rendering{Objects: []map[string]any{}, Warnings: orEmpty(warnings)}}
	var text bytes.Buffer
	for i, doc := range docs {
		objects, more, err := render.Objects(doc, options)
		if err != nil {
			return nil, invalidErrorf("%v", err)
		}
		for _, warning := range more {
			out.Body.Warnings = append(out.Body.Warnings, warning.String())
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		if err := render.WriteYAML(&text, objects); err != nil {
			return nil, err
		}
		for _, object := range objects {
			plain, err := plainObject(object)
			if err != nil {
				return nil, err
			}
			out.Body.Objects = append(out.Body.Objects, plain)
		}
	}
	out.Body.YAML = text.String()
	return out, nil
}

// plainObject converts an object to its JSON form.
func plainObject(object any) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return out, nil
}
