package server

import (
	"context"
	"errors"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// simulations is how many run at a time: each takes a core and some hundred megabytes for a second.
const simulations = 2

type simulateInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of documents that name none; default without it"`
	Body      struct {
		YAMLContent string `json:"yamlContent" minLength:"1" doc:"One or more jobs as gpuctl reads them"`
	}
}

type simulateOutput struct{ Body whatif.Answer }

func (s *Server) simulateRoutes() {
	register(s, route{method: http.MethodPost, path: Root + "/simulate", id: "simulate", tag: "documents",
		summary: "Where jobs would go if they were created now, or why they would wait; nothing is created",
		detail: "The scheduler's own code decides, in a process beside the server. You must be able to list nodes, and the pods " +
			"of all namespaces: with less, jobs would be put where others are. `policy` says whether the cluster's scoring policy " +
			"decided, which you must be able to read, or the one that is shipped. 503 where the server has no gpu-scheduler to run."},
		s.simulate)
}

func (s *Server) simulate(ctx context.Context, in *simulateInput) (*simulateOutput, error) {
	docs, _, err := parse(in.Body.YAMLContent)
	if err != nil {
		return nil, err
	}
	options, _, err := renderOptions(ctx, docs, in.Namespace)
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, doc := range docs {
		if doc.Job == nil {
			return nil, invalidf("a %s goes to no node: give jobs", doc.Kind)
		}
		rendered, _, err := render.Objects(doc, options)
		if err != nil {
			return nil, invalidf("%v", err)
		}
		objects = append(objects, rendered...)
	}
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case s.simulating <- struct{}{}:
		defer func() { <-s.simulating }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answer, err := whatif.Where(ctx, caller.Kubernetes, objects, s.options.Now())
	if errors.Is(err, whatif.ErrNoSimulator) {
		return nil, &unavailableError{text: "this server cannot simulate: it needs the program gpu-scheduler beside it, or in its PATH"}
	}
	if err != nil {
		return nil, err
	}
	return &simulateOutput{Body: answer}, nil
}
