package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

type applyJobInput struct {
	IfMatch
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of a document that names none; default without it"`
	Body      struct {
		YAMLBody
		Replace bool `json:"replace,omitempty" doc:"Recreate a job whose change Kubernetes refuses: what it has computed since its last checkpoint is lost"`
		Force   bool `json:"force,omitempty" doc:"Take over fields that another program set to another value"`
	}
}

// JobChanged is the result of a change of a job.
type JobChanged struct {
	JobID     string   `json:"jobId"`
	Namespace string   `json:"namespace"`
	Kind      string   `json:"kind"`
	Status    string   `json:"status" doc:"created, configured, replaced, unchanged, paused, resumed, cancelled, retried"`
	GPUs      int64    `json:"gpus" doc:"What the job asks altogether while it is not paused: what pausing releases"`
	Diff      string   `json:"diff,omitempty" doc:"What changed in the objects of the job"`
	Message   string   `json:"message"`
	Warnings  []string `json:"warnings,omitempty" doc:"What this cluster cannot fulfil as written, or could never fulfil with the nodes it has"`
}

type changeOutput struct {
	Status int
	Body   JobChanged
}

type patchJobInput struct {
	JobRef
	IfMatch
	Body struct {
		Priority string `json:"priority,omitempty" enum:"high,medium,low"`
		Pool     string `json:"pool,omitempty" maxLength:"63"`
		Replicas *int32 `json:"replicas,omitempty" minimum:"1" maximum:"10000"`
		Restart  bool   `json:"restart,omitempty" doc:"Permit to start a job over whose pods run: Kubernetes changes neither priority nor pool of one that does"`
		DryRun   bool   `json:"dryRun,omitempty"`
	}
}

// StepInput is the request for a step. It is exported because huma reads only exported embedded types.
type StepInput struct {
	JobRef
	Idempotent
	IfMatch
	DryRun bool `query:"dryRun" doc:"Let the API server check the change, and change nothing"`
}

type resumeInput struct {
	StepInput
	Digest string `query:"digest" maxLength:"71" doc:"Of a job that is not there, because somebody was stopped who made it again: make exactly the Job with this digest"`
}

type deleteJobInput struct {
	JobRef
	IfMatch
	Force bool `query:"force" doc:"Accepted for old clients: a deletion never waits, and pods end within their own grace period"`
}

// JobDeleted describes a job that is being deleted.
type JobDeleted struct {
	JobID     string `json:"jobId"`
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Status    string `json:"status" enum:"terminating"`
	Message   string `json:"message"`
}

type deleteJobOutput struct{ Body JobDeleted }

func (s *Server) jobWriteRoutes() {
	s.createRoutes()
	missing := []int{http.StatusNotFound, http.StatusConflict}
	changing := append(slices.Clone(missing), http.StatusPreconditionFailed)
	registerRoute(s, route{method: http.MethodPut, path: Root + "/jobs", id: "applyJob", tag: "jobs",
		summary: "Make a job what its YAML says: create it, change it, or leave it as it is",
		detail: "201 when the job was created, 200 else. When nothing differs nothing is written. A change that Kubernetes does not " +
			"make in place is refused with 409 Immutable and a diff, unless `replace` is set.",
		replies: map[int]*huma.Response{http.StatusCreated: jsonReply[JobChanged](s, "The job was created")}, fails: missing}, s.applyJob)
	registerRoute(s, route{method: http.MethodPatch, path: Root + "/jobs/{jobId}", id: "changeJob", tag: "jobs",
		summary: "Change the priority, the pool or the replicas of a job", fails: missing}, s.changeJob)
	registerRoute(s, route{method: http.MethodDelete, path: Root + "/jobs/{jobId}", id: "deleteJob", tag: "jobs",
		summary: "Delete a job with all that was made for it, and nothing else", fails: missing}, s.deleteJob)
	for _, step := range []struct {
		word, summary string
		take          stepFunc
	}{
		{"pause", "Take the GPUs of a job away until it is resumed: its pods end", (*submit.Client).Pause},
		{"cancel", "End a job for good and keep its record", (*submit.Client).Cancel},
	} {
		registerRoute(s, route{method: http.MethodPost, path: Root + "/jobs/{jobId}/" + step.word, id: step.word + "Job", tag: "jobs",
			summary: step.summary, fails: changing}, s.stepHandler(step.take))
	}
	registerRoute(s, route{method: http.MethodPost, path: Root + "/jobs/{jobId}/resume", id: "resumeJob", tag: "jobs",
		summary: "Let a paused job wait for GPUs again",
		detail: "A job that was being made again when somebody was stopped is not there: a Lease has its Job, and who may write Leases may " +
			"have put another one there. It is answered with 409 UnseenJob, the Job and its digest; with that digest it is made.",
		fails: changing}, s.resumeJob)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/jobs/{jobId}/retry", id: "retryJob", tag: "jobs",
		summary: "Start a job over that has ended", fails: changing}, s.retryJob)
}

func (s *Server) applyJob(ctx context.Context, in *applyJobInput) (*changeOutput, error) {
	doc, notes, err := s.parseJob(ctx, in.Body.YAMLContent, liveDocumentIn(in.Namespace))
	if err != nil {
		return nil, err
	}
	rendered, err := s.renderJob(ctx, doc, in.Namespace)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	result, err := in.guardWriter(writer, fmt.Sprintf("job %q", doc.Name)).Apply(ctx, rendered.objects, submit.ApplyOptions{
		Replace: in.Body.Replace, Force: in.Body.Force, DryRun: in.Body.DryRun, Render: rendered.options,
	})
	if err != nil {
		return nil, err
	}
	out, err := changeAnswer(ctx, result)
	if err != nil {
		return nil, err
	}
	out.Body.Warnings = slices.Concat(notes, rendered.warnings)
	if result.Action == submit.ActionCreated && !in.Body.DryRun {
		out.Status = http.StatusCreated
		s.cache.waitUntilShown(ctx, func(v *view) bool { return v.hasJobNamed(result.Ref) })
	}
	return out, nil
}

// changeAnswer returns the answer to a change and adds it to the audit log. If nothing was written because nothing differs, it checks the right to change
// here.
func changeAnswer(ctx context.Context, result submit.Result) (*changeOutput, error) {
	ref := result.Ref
	if result.Action == submit.ActionUnchanged {
		if err := checkChangeRight(ctx, "patch", ref.Namespace, jobResource(workload.Kind(ref.Kind))); err != nil {
			return nil, err
		}
	}
	addAuditNote(ctx, strings.Join([]string{ref.Kind, ref.Namespace, ref.Name}, "/")+" "+string(result.Action))
	return &changeOutput{Status: http.StatusOK, Body: JobChanged{
		JobID: ref.Name, Namespace: ref.Namespace, Kind: ref.Kind, Status: string(result.Action),
		GPUs: result.GPUs, Diff: result.Diff, Message: changeMessages[result.Action],
	}}, nil
}

// changeMessages are the results in the language of the first gpuctl's answers.
var changeMessages = map[submit.Action]string{
	submit.ActionCreated: messageSubmitted, submit.ActionConfigured: "任务已更新", submit.ActionReplaced: "任务已重建",
	submit.ActionUnchanged: "任务无变化", submit.ActionPaused: "任务已暂停，GPU 已释放", submit.ActionResumed: "任务已恢复排队",
	submit.ActionCancelled: "任务已取消", submit.ActionRetried: "任务已重新提交",
}

// jobTarget returns the job that a path names, and a writer that acts as the caller while the job has the version that the caller has read.
func (s *Server) jobTarget(ctx context.Context, ref JobRef, match IfMatch) (*submit.Client, submit.Ref, error) {
	query, err := s.locateJob(ctx, ref)
	if err != nil {
		return nil, submit.Ref{}, err
	}
	if err := s.refuseForeign(ctx, query); err != nil {
		return nil, submit.Ref{}, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, submit.Ref{}, err
	}
	return match.guardWriter(writer, fmt.Sprintf("job %q", query.Name)), submit.Ref{Namespace: query.Namespace, Name: query.Name}, nil
}

// refuseForeign refuses a change of a workload that gpuctl did not make. Only callers that may list it learn that it is there.
func (s *Server) refuseForeign(ctx context.Context, query inventory.JobQuery) error {
	view, err := s.cache.latestView()
	if err != nil {
		return err
	}
	named := matchingJobs(view.Jobs, JobRef{JobID: query.Name, Namespace: query.Namespace})
	if len(named) == 0 || named[0].Name != query.Name || slices.ContainsFunc(named, func(job *inventory.Job) bool { return !job.Foreign }) {
		return nil
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return err
	}
	if caller.CheckListRight(ctx, query.Namespace, jobResources...) != nil {
		return nil // the API server answers
	}
	return &inventory.ForeignError{Namespace: query.Namespace, Kind: named[0].Kind, Name: query.Name}
}

func (s *Server) changeJob(ctx context.Context, in *patchJobInput) (*changeOutput, error) {
	edit, err := in.requestedEdit()
	if err != nil {
		return nil, err
	}
	writer, ref, err := s.jobTarget(ctx, in.JobRef, in.IfMatch)
	if err != nil {
		return nil, err
	}
	options, err := s.storedRenderOptions(ctx, writer, ref)
	if err != nil {
		return nil, err
	}
	result, err := edit(ctx, writer, ref, submit.EditOptions{Restart: in.Body.Restart, DryRun: in.Body.DryRun, Render: options})
	if err != nil {
		return nil, err
	}
	return changeAnswer(ctx, result)
}

// editFunc makes one change of a job.
type editFunc func(context.Context, *submit.Client, submit.Ref, submit.EditOptions) (submit.Result, error)

// requestedEdit returns the one change that a request asks for. Several changes could fail halfway.
func (in *patchJobInput) requestedEdit() (editFunc, error) {
	var edits []editFunc
	if in.Body.Priority != "" {
		edits = append(edits, func(ctx context.Context, c *submit.Client, ref submit.Ref, o submit.EditOptions) (submit.Result, error) {
			return c.SetPriority(ctx, ref, workload.Priority(in.Body.Priority), o)
		})
	}
	if in.Body.Pool != "" {
		edits = append(edits, func(ctx context.Context, c *submit.Client, ref submit.Ref, o submit.EditOptions) (submit.Result, error) {
			return c.Move(ctx, ref, in.Body.Pool, o)
		})
	}
	if in.Body.Replicas != nil {
		edits = append(edits, func(ctx context.Context, c *submit.Client, ref submit.Ref, o submit.EditOptions) (submit.Result, error) {
			return c.Scale(ctx, ref, *in.Body.Replicas, o)
		})
	}
	if len(edits) != 1 {
		return nil, invalidErrorf("send exactly one of priority, pool and replicas; PUT %s/jobs changes several at once", Root)
	}
	return edits[0], nil
}

// stepFunc is one of the steps of [submit.Client].
type stepFunc func(*submit.Client, context.Context, submit.Ref, submit.StepOptions) (submit.Result, error)

// stepHandler returns the handler of a step.
func (s *Server) stepHandler(take stepFunc) func(context.Context, *StepInput) (*changeOutput, error) {
	return func(ctx context.Context, in *StepInput) (*changeOutput, error) {
		return s.runStep(ctx, in, take, submit.StepOptions{Now: s.options.Now(), DryRun: in.DryRun})
	}
}

// resumeJob may create a Job, which the caller must have seen before. A dry run requires the same.
func (s *Server) resumeJob(ctx context.Context, in *resumeInput) (*changeOutput, error) {
	take := func(c *submit.Client, ctx context.Context, ref submit.Ref, options submit.StepOptions) (submit.Result, error) {
		result, err := c.Resume(ctx, ref, options)
		if err == nil && result.Replacement != nil && options.Digest == "" {
			err = &submit.UnseenJobError{Replacement: *result.Replacement}
		}
		return result, err
	}
	return s.runStep(ctx, &in.StepInput, take, submit.StepOptions{Now: s.options.Now(), DryRun: in.DryRun, Digest: in.Digest})
}

func (s *Server) runStep(ctx context.Context, in *StepInput, take stepFunc, options submit.StepOptions) (*changeOutput, error) {
	writer, ref, err := s.jobTarget(ctx, in.JobRef, in.IfMatch)
	if err != nil {
		return nil, err
	}
	result, err := take(writer, ctx, ref, options)
	if err != nil {
		return nil, err
	}
	return changeAnswer(ctx, result)
}

func (s *Server) retryJob(ctx context.Context, in *StepInput) (*changeOutput, error) {
	writer, ref, err := s.jobTarget(ctx, in.JobRef, in.IfMatch)
	if err != nil {
		return nil, err
	}
	options, err := s.storedRenderOptions(ctx, writer, ref)
	if err != nil {
		return nil, err
	}
	result, err := writer.Retry(ctx, ref, submit.EditOptions{DryRun: in.DryRun, Render: options, AllTasks: true})
	if err != nil {
		return nil, err
	}
	return changeAnswer(ctx, result)
}

func (s *Server) deleteJob(ctx context.Context, in *deleteJobInput) (*deleteJobOutput, error) {
	writer, ref, err := s.jobTarget(ctx, in.JobRef, in.IfMatch)
	if err != nil {
		return nil, err
	}
	top, err := writer.TopObject(ctx, ref)
	if err != nil && !isAbsent(err) { // the job's own object may be gone: delete what is left of it
		return nil, err
	}
	deleted, err := writer.Delete(ctx, ref.Namespace, ref.Name, "")
	if err != nil {
		return nil, err
	}
	addAuditNote(ctx, strings.Join([]string{deleted.Kind, deleted.Namespace, deleted.Name}, "/"))
	if top != nil {
		s.cache.waitUntilShown(ctx, func(v *view) bool { return !v.hasActiveJob(top) })
	}
	return &deleteJobOutput{Body: JobDeleted{
		JobID: deleted.Name, Namespace: deleted.Namespace, Kind: deleted.Kind, Status: "terminating", Message: messageDeleting,
	}}, nil
}
