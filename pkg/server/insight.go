package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	explainclient "g8s.host/gpu-scheduler/pkg/explain/client"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/serving"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

type explainOutput struct{ Body diagnosis.Report }

type podInput struct {
	Pod       string `path:"podName" maxLength:"253" pattern:"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of the pod; default without it"`
}

func (s *Server) jobInsightRoutes() {
	s.logRoutes()
	s.logSocketRoutes()
	s.usageRoutes()
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/explain", id: "explainJob", tag: "jobs",
		summary: "Why a job does not run, or why it runs where it does, and what to change",
		detail: "What you may not read is listed in `unread`, and not guessed. `records` are the scheduler's own of its attempts: to " +
			"who may get /explain/v1/pods/NAMESPACE/ of the scheduler, as with the ClusterRole g8s:explain-reader.",
		fails: []int{http.StatusNotFound, http.StatusConflict}, weight: explanationWeight}, s.explainJob)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/pods/{podName}/explain", id: "explainPod", tag: "jobs",
		summary: "Why a pod does not run, or why it runs where it does, and what to change",
		detail: "Of a pod that is of a job the answer is that of the job. One that nobody made with gpuctl is explained as `kind` pod, if " +
			"gpu-scheduler places it; of another scheduler it is 409 OtherScheduler.",
		fails: []int{http.StatusNotFound, http.StatusConflict}, weight: explanationWeight}, s.explainPod)
}

// explanationWeight is three: an explanation has the API server answer thirteen requests, and the other routes of a job three to six.
const explanationWeight = 3

func (s *Server) explainJob(ctx context.Context, in *JobRef) (*explainOutput, error) {
	query, err := s.locateJob(ctx, *in)
	if err != nil {
		return nil, err
	}
	leave, err := acquireSlot(ctx, s.budgets.reading, 1)
	if err != nil {
		return nil, err
	}
	serving.UntilSent(ctx, leave)
	return s.explainLocatedJob(ctx, query)
}

// explainLocatedJob explains a job. The caller holds a slot of the reading budget.
func (s *Server) explainLocatedJob(ctx context.Context, query inventory.JobQuery) (*explainOutput, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := diagnosis.Read(ctx, caller.Kubernetes, query.Namespace, query.Name, s.options.Now())
	if err != nil {
		return nil, err
	}
	jobs := make([]inventory.Job, len(facts))
	for i := range facts {
		jobs[i] = facts[i].Job.Job
	}
	if _, err := query.OnlyJob(jobs); err != nil {
		return nil, err
	}
	if err := s.addSchedulerRecords(ctx, &facts[0]); err != nil {
		return nil, err
	}
	document, err := s.parseSubmitted(ctx, facts[0].Job.Submitted)
	if err != nil {
		return nil, err
	}
	if size, level := requestedSegments(document); size > 0 {
		facts[0].Job.FillSegments(size, level, facts[0].Cluster.Nodes)
	}
	return &explainOutput{Body: diagnosis.Diagnose(facts[0]).LocalizeText(languageFrom(ctx))}, nil
}

// explainPod checks the right to the pod first, so that a caller without it does not learn whether the pod exists.
func (s *Server) explainPod(ctx context.Context, in *podInput) (*explainOutput, error) {
	namespace := cmp.Or(in.Namespace, defaultNamespace)
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckNamedRight(ctx, "get", namespace, in.Pod, podResource); err != nil {
		return nil, err
	}
	pod, err := diagnosis.FindPod(ctx, caller.Kubernetes, namespace, in.Pod)
	switch {
	case err != nil:
		return nil, err
	case pod == nil:
		return nil, notFoundErrorf("no pod %q in namespace %s", in.Pod, namespace)
	}
	leave, err := acquireSlot(ctx, s.budgets.reading, 1)
	if err != nil {
		return nil, err
	}
	serving.UntilSent(ctx, leave)
	if job := diagnosis.JobNameOfPod(pod); job != "" {
		out, err := s.explainLocatedJob(ctx, inventory.JobQuery{Namespace: namespace, Name: job, Foreign: true})
		if !errors.As(err, new(*inventory.NotFoundError)) {
			return out, err
		}
	}
	facts, err := diagnosis.ReadPod(ctx, caller.Kubernetes, pod, s.options.Now())
	if err != nil {
		return nil, err
	}
	return &explainOutput{Body: diagnosis.DiagnosePod(*facts).LocalizeText(languageFrom(ctx))}, nil
}

// recordsTimeout bounds a query to the scheduler.
const recordsTimeout = 3 * time.Second

// addSchedulerRecords adds the scheduler's records to the facts of a job if the caller may read them. If the scheduler does not answer, the explanation goes
// without them.
func (s *Server) addSchedulerRecords(ctx context.Context, facts *diagnosis.Facts) error {
	if s.scheduler == nil {
		return nil
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return err
	}
	err = caller.CheckPathRight(ctx, explainclient.RecordsPath(facts.Job.Namespace, ""))
	if errors.As(err, new(*access.DeniedError)) {
		facts.Cluster.MarkUnread(snapshot.PartRecords)
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsTimeout)
	defer cancel()
	records, err := s.scheduler.Job(ctx, facts.Job.Namespace, facts.Job.Name)
	if err != nil {
		s.options.Log.WarnContext(ctx, "Reading the scheduler's records failed", "requestId", requestID(ctx), "error", err)
		facts.Cluster.MarkUnread(snapshot.PartRecords)
		return nil
	}
	facts.AddRecords(records)
	return nil
}
