package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/util/duration"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
)

// JobItem is one job of a list: a job, not one of its pods.
type JobItem struct {
	JobID     string                   `json:"jobId" doc:"The name, by which all other routes know the job"`
	Name      string                   `json:"name"`
	Namespace string                   `json:"namespace"`
	Kind      string                   `json:"kind" doc:"training, inference, notebook or compute, else the kind of the object of a workload that gpuctl did not make, such as RayCluster"`
	Status    string                   `json:"status" doc:"Pending, Starting, Running, Degraded, Failing, Suspended, Succeeded, Failed or Terminating"`
	Reason    string                   `json:"reason,omitempty" doc:"Why it does not run, in one word"`
	Message   string                   `json:"message,omitempty" doc:"Why it does not run, in a sentence"`
	Ready     string                   `json:"ready" doc:"Pods that are ready, of those there should be" example:"1/2"`
	Node      string                   `json:"node" doc:"The first node it runs on, empty when on none"`
	Nodes     []string                 `json:"nodes,omitempty"`
	IP        string                   `json:"ip" doc:"The address of the pod, of the first of several"`
	GPUs      int64                    `json:"gpus" doc:"GPUs that all pods ask together"`
	MIG       []inventory.AskedProfile `json:"mig,omitempty" doc:"MIG slices that each pod asks for"`
	GPUTypes  []string                 `json:"gpuTypes,omitempty" doc:"Types it takes, the preferred first; absent for any"`
	Pool      string                   `json:"pool,omitempty"`
	Priority  string                   `json:"priority,omitempty"`
	User      string                   `json:"user,omitempty" doc:"Who submitted it, as the cluster knows them"`
	Age       string                   `json:"age" example:"13h"`
	CreatedAt time.Time                `json:"createdAt"`
	StartedAt *time.Time               `json:"startedAt,omitempty" doc:"When the first of its pods that are there started"`
	EndedAt   *time.Time               `json:"endedAt,omitempty"`
	Restarts  int32                    `json:"restarts" doc:"How often it was started again after a failure"`
}

// JobFilter selects the jobs to list.
type JobFilter struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"Only this namespace; without it all that you may list"`
	Kind      string `query:"kind" maxLength:"63" pattern:"^([A-Za-z][A-Za-z0-9]*)?$" doc:"Only jobs of this kind: training, inference, notebook, compute, or that of an object, such as RayCluster"`
	Pool      string `query:"pool"`
	Status    string `query:"status" doc:"One or more, with commas; case does not matter" example:"Pending,Failing"`
	Priority  string `query:"priority" enum:"high,medium,low"`
	GPUType   string `query:"gpuType" doc:"Only jobs that take this type"`
	Name      string `query:"name" doc:"Only the jobs of this name"`
}

type jobListInput struct {
	JobFilter
	Paging
	Watch  bool   `query:"watch" doc:"Answer with events: the jobs as they are, and then every change"`
	Since  string `query:"since" maxLength:"100" doc:"With watch: the resourceVersion of a list that was read before, to get what has changed since"`
	LastID string `header:"Last-Event-ID" doc:"The id of the last event you saw, to go on after it"`
}

// JobList is a page of jobs.
type JobList struct {
	Page[JobItem]
	ResourceVersion string `json:"resourceVersion" doc:"Of when this page was read: a watch with that of the first page as since has all that changed later"`
}

func (s *Server) jobRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs", id: "listJobs", tag: "jobs",
		summary: "List jobs, or watch them",
		detail: "One item for each job. With watch=true the answer is a stream of server-sent events: `added`, `modified` and " +
			"`deleted` carry a job; `reset` says to forget all jobs, as all are sent again; `synced` says that all have been sent. " +
			"Events have ids; a client that comes back with Last-Event-ID goes on after it, and one that comes with the resourceVersion of a list " +
			"as since goes on after that.",
		fails: []int{http.StatusUnprocessableEntity},
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[JobList](s, "A page of jobs, or their events", s.eventStream("JobStreamEvent",
			streamedEvent{name: "reset"}, streamedEvent{name: "synced"}, streamedEvent{"added", JobItem{}}, streamedEvent{"modified", JobItem{}},
			streamedEvent{"deleted", JobItem{}}, streamedEvent{"error", Failure{}}))},
	}, s.listJobs)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}", id: "getJob", tag: "jobs",
		summary: "All about a job: its pods, services and events, and the YAML it was made from",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.getJob)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/pods", id: "listJobPods", tag: "jobs",
		summary: "The pods of a job", fails: []int{http.StatusNotFound, http.StatusConflict}}, s.listJobPods)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/events", id: "listJobEvents", tag: "jobs",
		summary: "What happened to a job, its pods and all between them, the oldest first",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.listJobEvents)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/spec", id: "getJobSpec", tag: "jobs",
		summary: "The YAML that a job was made from, as it was submitted",
		fails:   []int{http.StatusNotFound, http.StatusConflict}}, s.getJobSpec)
}

func (s *Server) listJobs(ctx context.Context, in *jobListInput) (*huma.StreamResponse, error) {
	view, err := s.cache.latestView()
	if err != nil {
		return nil, err
	}
	scope, err := s.jobScope(ctx, view, in.Namespace, view.jobNamespaces)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Watch:
		return s.watchJobs(ctx, in)
	case in.Since != "":
		return nil, invalidErrorf("since is of a watch: add watch=true")
	}
	matching := in.filterJobs(view.Jobs, scope)
	now := s.options.Now()
	page, err := cutPage(in.Paging, matching, jobKey, func(job *inventory.Job) JobItem { return jobItem(ctx, job, now) })
	if err != nil {
		return nil, err
	}
	return s.valueResponse(JobList{Page: page, ResourceVersion: view.jobsVersion}), nil
}

// jobScope returns where the caller may see jobs: in the given namespace, else among the candidates wherever it may list the resources of jobs. A caller
// who may in none of them, but in a namespace that has no jobs yet, sees an empty list; one who may nowhere gets an error.
func (s *Server) jobScope(ctx context.Context, v *view, namespace string, candidates []string) (access.Scope, error) {
	scope, err := listScope(ctx, namespace, candidates, jobResources...)
	if namespace != "" || !errors.As(err, new(*access.DeniedError)) {
		return scope, err
	}
	return listScope(ctx, "", v.namespaceNames(), jobResources...)
}

// listScope returns the candidates in which the caller may list all resources. With a namespace, the caller must have the right there.
func listScope(ctx context.Context, namespace string, candidates []string, resources ...access.Resource) (access.Scope, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return access.Scope{}, err
	}
	if namespace != "" {
		if err := caller.CheckListRight(ctx, namespace, resources...); err != nil {
			return access.Scope{}, err
		}
		return access.OneNamespace(namespace), nil
	}
	scope, err := caller.FindScope(ctx, candidates, resources...)
	if err == nil && scope.Empty() && len(candidates) > 0 {
		err = scope.Denied
	}
	return scope, err
}

// filterJobs returns the jobs that match, in the order of the list.
func (f *JobFilter) filterJobs(jobs []inventory.Job, scope access.Scope) []*inventory.Job {
	var out []*inventory.Job
	for i := range jobs {
		if scope.Has(jobs[i].Namespace) && f.matchesJob(&jobs[i]) {
			out = append(out, &jobs[i])
		}
	}
	return out
}

func (f *JobFilter) matchesJob(job *inventory.Job) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(f.Namespace, job.Namespace) && is(f.Kind, job.Kind) && is(f.Pool, job.Pool) &&
		is(f.Priority, job.Priority) && is(f.Name, job.Name) && hasStatus(f.Status, job.Status) &&
		(f.GPUType == "" || slices.Contains(job.GPUTypes, f.GPUType))
}

func hasStatus(wanted string, status inventory.Status) bool {
	return wanted == "" || slices.ContainsFunc(strings.Split(wanted, ","), func(one string) bool {
		return strings.EqualFold(strings.TrimSpace(one), string(status))
	})
}

// jobKey orders jobs as the inventory does. The separator sorts before any letter of a name.
func jobKey(job *inventory.Job) string {
	return job.Namespace + "\x00" + job.Name + "\x00" + job.Kind
}

// jobItem is a job as lists have it, with its message in the language of the request.
func jobItem(ctx context.Context, job *inventory.Job, now time.Time) JobItem {
	item := JobItem{
		JobID: job.Name, Name: job.Name, Namespace: job.Namespace, Kind: job.Kind,
		Status: string(job.Status), Reason: job.Reason, Message: languageFrom(ctx).TranslateMessage(job.Message),
		Ready: fmt.Sprintf("%d/%d", job.Ready, job.Desired), Nodes: job.Nodes,
		GPUs: job.GPUs, MIG: job.MIG, GPUTypes: job.GPUTypes, Pool: job.Pool, Priority: job.Priority, User: job.User,
		Age: duration.HumanDuration(now.Sub(job.Created)), CreatedAt: job.Created,
		StartedAt: job.Started, EndedAt: job.Finished, Restarts: job.Restarts,
	}
	if len(job.Nodes) > 0 {
		item.Node = job.Nodes[0]
	}
	for i := range job.Pods {
		item.IP = cmp.Or(item.IP, job.Pods[i].IP)
	}
	return item
}

// valueResponse returns a value as the body on a route that may also return a stream.
func (s *Server) valueResponse(v any) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		kind := s.acceptedType(ctx.Header("Accept"))
		ctx.SetHeader("Content-Type", kind)
		ctx.SetStatus(http.StatusOK)
		if err := s.api.Marshal(ctx.BodyWriter(), kind, v); err != nil {
			s.options.Log.Debug("Writing an answer failed", "error", err)
		}
	}}
}

// encodeAnswer encodes a value in a format that the client accepts.
func (s *Server) encodeAnswer(accept string, v any) (kind string, body []byte, err error) {
	var b bytes.Buffer
	kind = s.acceptedType(accept)
	if err := s.api.Marshal(&b, kind, v); err != nil {
		return "", nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return kind, b.Bytes(), nil
}

// acceptedType returns the answer format that a client accepts, JSON by default.
func (s *Server) acceptedType(accept string) string {
	kind, err := s.api.Negotiate(accept)
	if err != nil {
		return jsonType
	}
	return kind
}
