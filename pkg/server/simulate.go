package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

const (
	// maxSimulated bounds the pods of one simulation.
	maxSimulated = 500
	// simulationTimeout bounds a simulation, because others wait for its slot.
	simulationTimeout = 15 * time.Second
)

type simulateInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of documents that name none; default without it"`
	Body      struct {
		YAMLContent string `json:"yamlContent" minLength:"1" doc:"One or more jobs as gpuctl reads them"`
	}
}

type simulateOutput struct{ Body whatif.Answer }

func (s *Server) simulateRoutes() {
	registerRoute(s, route{method: http.MethodPost, path: Root + "/simulate", id: "simulate", tag: "documents",
		summary: "Where jobs would go if they were created now, or why they would wait; nothing is created",
		detail: "The API server is asked whether it would let the jobs and their pods in, as far as you may create such: `unasked` says " +
			"what could not be asked. Then the scheduler's own code decides, in a process beside the server. You must be able to list nodes, and the pods " +
			"of all namespaces: with less, jobs would be put where others are. `policy` says whether the cluster's scoring policy " +
			"decided, which you must be able to read, or the one that is shipped. At most 500 pods are placed at once. 503 where the server has no gpu-scheduler to run."},
		s.simulateJobs)
}

func (s *Server) simulateJobs(ctx context.Context, in *simulateInput) (*simulateOutput, error) {
	docs, err := s.parseSome(ctx, in.Body.YAMLContent, noLiveDocument)
	if err != nil {
		return nil, err
	}
	options, _, err := renderOptions(ctx, docs, in.Namespace)
	if err != nil {
		return nil, err
	}
	var jobs [][]client.Object
	for _, doc := range docs {
		if doc.Job == nil {
			return nil, invalidErrorf("a %s goes to no node: give jobs", doc.Kind)
		}
		rendered, _, err := render.Objects(doc.WithoutUpload(), options)
		if err != nil {
			return nil, invalidErrorf("%v", err)
		}
		jobs = append(jobs, rendered)
	}
	if n := countPods(slices.Concat(jobs...)); n > maxSimulated {
		return nil, invalidErrorf("the jobs have %d pods, at most %d are simulated at once: ask about fewer, or use gpuctl simulate", n, maxSimulated)
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.simulating, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, simulationTimeout)
	defer cancel()
	answer, err := whatif.Simulate(ctx, caller.Kubernetes, writer, jobs, s.options.Now())
	if ctx.Err() != nil {
		return nil, &refusal{status: http.StatusGatewayTimeout, code: "Timeout",
			text: fmt.Sprintf("the simulation took longer than %s and was ended: ask about fewer pods, or use gpuctl simulate", simulationTimeout)}
	}
	if errors.Is(err, whatif.ErrNoSimulator) {
		return nil, &unavailableError{text: "this server cannot simulate: it needs the program gpu-scheduler beside it, or in its PATH"}
	}
	if err != nil {
		return nil, err
	}
	return &simulateOutput{Body: answer}, nil
}

// countPods returns the number of pods that objects create at once.
func countPods(objects []client.Object) int {
	pods := 0
	for _, object := range objects {
		switch object := object.(type) {
		case *batchv1.Job:
			pods += int(ptr.Deref(object.Spec.Parallelism, 1))
		case *appsv1.Deployment:
			pods += int(ptr.Deref(object.Spec.Replicas, 1))
		}
	}
	return pods
}
