package server

import (
	"context"
	"net/http"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

type explainOutput struct{ Body diagnosis.Report }

func (s *Server) jobInsightRoutes() {
	s.logRoutes()
	s.logSocketRoutes()
	s.usageRoutes()
	register(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/explain", id: "explainJob", tag: "jobs",
		summary: "Why a job does not run, or why it runs where it does, and what to change",
		detail:  "What you may not read is listed in `unread`, and not guessed.",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.explainJob)
}

func (s *Server) explainJob(ctx context.Context, in *JobRef) (*explainOutput, error) {
	query, err := s.locate(ctx, *in)
	if err != nil {
		return nil, err
	}
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := diagnosis.NewReader(caller.Kubernetes).Read(ctx, query.Namespace, query.Name, s.options.Now())
	if err != nil {
		return nil, err
	}
	jobs := make([]inventory.Job, len(facts))
	for i := range facts {
		jobs[i] = facts[i].Job.Job
	}
	if _, err := query.Only(jobs); err != nil {
		return nil, err
	}
	return &explainOutput{Body: diagnosis.Diagnose(facts[0])}, nil
}
