package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
)

// JobRef names a job in a path.
type JobRef struct {
	JobID     string `path:"jobId" maxLength:"253" pattern:"^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$" doc:"The name of the job; that of one of its pods is taken too"`
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of the job; without it the one that has it, if it is the only one"`
}

// JobDetail is all about one job.
type JobDetail struct {
	JobID         string                `json:"jobId"`
	Name          string                `json:"name"`
	Namespace     string                `json:"namespace"`
	Kind          string                `json:"kind"`
	Status        string                `json:"status"`
	Reason        string                `json:"reason,omitempty"`
	Message       string                `json:"message,omitempty"`
	Age           string                `json:"age"`
	Created       time.Time             `json:"created"`
	Started       *time.Time            `json:"started,omitempty" doc:"When the first pod started"`
	Completed     *time.Time            `json:"completed,omitempty"`
	Priority      string                `json:"priority,omitempty"`
	Pool          string                `json:"pool,omitempty"`
	User          string                `json:"user,omitempty" doc:"Who submitted it, as the cluster knows them"`
	Description   string                `json:"description,omitempty"`
	Ready         int32                 `json:"ready"`
	Desired       int32                 `json:"desired"`
	Resources     JobResources          `json:"resources" doc:"What each pod asks"`
	ResourceType  string                `json:"resourceType" doc:"The kind of the Kubernetes object, such as Job or Deployment"`
	Object        string                `json:"object" doc:"The name of the Kubernetes object"`
	Container     inventory.Container   `json:"container"`
	Pods          []inventory.Pod       `json:"pods"`
	Services      []inventory.Service   `json:"services"`
	Events        []JobEvent            `json:"events" doc:"The newest 100; /events has all, by pages"`
	YAMLContent   map[string]any        `json:"document,omitempty" doc:"The YAML it was made from, as a value; /spec has the text"`
	AccessMethods *JobAccess            `json:"accessMethods,omitempty" doc:"How a service is reached"`
	Nodes         []string              `json:"nodes,omitempty"`
	Kueue         *inventory.KueuePlace `json:"kueue,omitempty" doc:"Where it stands in a queue of Kueue that holds it back, to who may list Kueue's Workloads of the namespace"`
	Segments      []inventory.Segment   `json:"segments,omitempty" doc:"Where the segments lie that resources.topology divides it into, to who may list nodes"`
}

// JobResources is what each pod of a job asks.
type JobResources struct {
	CPU      string                   `json:"cpu,omitempty"`
	Memory   string                   `json:"memory,omitempty"`
	GPU      int64                    `json:"gpu"`
	MIG      []inventory.AskedProfile `json:"mig,omitempty" doc:"MIG slices"`
	GPUTypes []string                 `json:"gpuTypes,omitempty"`
}

// JobEvent is one thing that happened, and how often.
type JobEvent struct {
	Age      string    `json:"age"`
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	Object   string    `json:"object"`
	Message  string    `json:"message"`
	Count    int32     `json:"count"`
	LastSeen time.Time `json:"lastSeen"`
}

// JobAccess is how a service is reached over the network.
type JobAccess struct {
	PodIP     *PodIPAccess     `json:"podIp,omitempty"`
	ClusterIP *ClusterIPAccess `json:"clusterIp,omitempty"`
	NodePort  *NodePortAccess  `json:"nodePort,omitempty"`
}

// PodIPAccess reaches one pod from inside the cluster.
type PodIPAccess struct {
	PodIP string `json:"podIp"`
	Port  int32  `json:"port"`
	URL   string `json:"url"`
}

// ClusterIPAccess reaches the service from inside the cluster.
type ClusterIPAccess struct {
	ClusterIP string `json:"clusterIp"`
	Port      int32  `json:"port"`
	URL       string `json:"url"`
}

// NodePortAccess reaches the service from outside, through any node.
type NodePortAccess struct {
	NodePort int32  `json:"nodePort"`
	Node     string `json:"node,omitempty" doc:"A node that runs a pod of the job"`
}

type jobDetailOutput struct {
	ETagged
	Body JobDetail
}

type jobPodsOutput struct {
	Body struct {
		Total int             `json:"total"`
		Items []inventory.Pod `json:"items"`
	}
}

type jobEventsInput struct {
	JobRef
	Paging
}

// JobEventList is a page of events.
type JobEventList Page[JobEvent]

type jobEventsOutput struct{ Body JobEventList }

// JobSpec is the YAML that a job was made from.
type JobSpec struct {
	JobID       string `json:"jobId"`
	Namespace   string `json:"namespace"`
	YAMLContent string `json:"yamlContent"`
}

type jobSpecOutput struct {
	ETagged
	Body JobSpec
}

// locateJob returns the namespace and name of the job that a path names.
func (s *Server) locateJob(ctx context.Context, ref JobRef) (inventory.JobQuery, error) {
	query := inventory.JobQuery{Namespace: ref.Namespace, Name: ref.JobID, Foreign: true}
	view, err := s.cache.latestView()
	if err != nil {
		return query, err
	}
	candidates := matchingJobs(view.Jobs, ref)
	caller, err := callerFrom(ctx)
	if err != nil {
		return query, err
	}
	if ref.Namespace != "" {
		// Only callers that may list pods and jobs learn which job a pod belongs to. For others the API server answers about the name as given.
		if len(candidates) > 0 && candidates[0].Name == ref.JobID || caller.CheckListRight(ctx, ref.Namespace, jobResources...) != nil {
			return query, nil
		}
		if len(candidates) > 0 {
			query.Name = candidates[0].Name
			return query, nil
		}
		query.Name, err = jobOfPod(ctx, caller, ref)
		return query, err
	}
	scope, err := caller.FindScope(ctx, namespacesOf(candidates), jobResources...)
	if err != nil {
		return query, err
	}
	seen := slices.DeleteFunc(candidates, func(job *inventory.Job) bool { return !scope.Has(job.Namespace) })
	if len(seen) == 0 { // answer as if the job did not exist
		return locateUnknownJob(ctx, caller, ref, view.jobNamespaces)
	}
	return chooseNamespace(ref, seen)
}

// locateUnknownJob returns the query for a job that the cache does not have. It tries the default namespace, where the API server decides, because the job
// may be newer than the cache. A caller that may see jobs only in other namespaces gets "not found".
func locateUnknownJob(ctx context.Context, caller *access.Caller, ref JobRef, namespaces []string) (inventory.JobQuery, error) {
	query := inventory.JobQuery{Namespace: defaultNamespace, Name: ref.JobID, Foreign: true}
	scope, err := caller.FindScope(ctx, append(slices.Clone(namespaces), defaultNamespace), jobResources...)
	if err == nil && !scope.Has(defaultNamespace) && !scope.Empty() {
		err = notFoundErrorf("no job %q in the namespaces that you may see: if it is new, name its namespace with ?namespace=", ref.JobID)
	}
	return query, err
}

// jobOfPod returns the job of a pod that may be newer than the cache. It returns the given name if that names no pod.
func jobOfPod(ctx context.Context, caller *access.Caller, ref JobRef) (string, error) {
	pod, err := caller.Kubernetes.CoreV1().Pods(ref.Namespace).Get(ctx, ref.JobID, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return ref.JobID, nil
	}
	if err != nil {
		return "", err
	}
	return cmp.Or(gang.WorkloadOf(pod).JobName(), ref.JobID), nil
}

// matchingJobs returns the jobs that a path may mean: those with the name, else those that own a pod with the name.
func matchingJobs(jobs []inventory.Job, ref JobRef) []*inventory.Job {
	var named, owning []*inventory.Job
	for i := range jobs {
		job := &jobs[i]
		switch {
		case ref.Namespace != "" && job.Namespace != ref.Namespace:
		case job.Name == ref.JobID:
			named = append(named, job)
		case slices.ContainsFunc(job.Pods, func(pod inventory.Pod) bool { return pod.Name == ref.JobID }):
			owning = append(owning, job)
		}
	}
	if len(named) > 0 {
		return named
	}
	return owning
}

func namespacesOf(jobs []*inventory.Job) []string {
	out := make([]string, len(jobs))
	for i, job := range jobs {
		out[i] = job.Namespace
	}
	return slices.Compact(out)
}

// chooseNamespace returns the only namespace that has a job visible to the caller.
func chooseNamespace(ref JobRef, seen []*inventory.Job) (inventory.JobQuery, error) {
	namespaces := namespacesOf(seen)
	if len(namespaces) > 1 {
		return inventory.JobQuery{}, conflictErrorf("Ambiguous", "several namespaces have a job %q: %s. Choose one with ?namespace=",
			ref.JobID, strings.Join(namespaces, ", "))
	}
	return inventory.JobQuery{Namespace: namespaces[0], Name: seen[0].Name, Foreign: true}, nil
}

const defaultNamespace = "default"

// readJob reads a job and its pods as the caller: half of what [Server.readJobDetail] asks of the API server.
func (s *Server) readJob(ctx context.Context, ref JobRef) (inventory.Job, error) {
	query, err := s.locateJob(ctx, ref)
	if err != nil {
		return inventory.Job{}, err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return inventory.Job{}, err
	}
	return inventory.NewReader(caller.Kubernetes).Job(ctx, query.Namespace, query.Name)
}

// readJobDetail reads all about a job as the caller.
func (s *Server) readJobDetail(ctx context.Context, ref JobRef) (inventory.JobDetail, error) {
	query, err := s.locateJob(ctx, ref)
	if err != nil {
		return inventory.JobDetail{}, err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return inventory.JobDetail{}, err
	}
	details, err := inventory.NewReader(caller.Kubernetes).Details(ctx, query)
	if err != nil {
		return inventory.JobDetail{}, err
	}
	jobs := make([]inventory.Job, len(details))
	for i := range details {
		jobs[i] = details[i].Job
	}
	if _, err := query.OnlyJob(jobs); err != nil {
		return inventory.JobDetail{}, err
	}
	if details[0].HasMIGSlices() {
		err = inventory.NewReader(caller.Kubernetes).FillDevices(ctx, details[:1])
	}
	return details[0], err
}

func (s *Server) getJob(ctx context.Context, in *JobRef) (*jobDetailOutput, error) {
	detail, err := s.readJobDetail(ctx, *in)
	if err != nil {
		return nil, err
	}
	spec, err := s.parseSubmitted(ctx, detail.Submitted)
	if err != nil {
		return nil, err
	}
	if err := s.addSegments(ctx, &detail, spec); err != nil {
		return nil, err
	}
	return &jobDetailOutput{ETagged: jobETag(&detail), Body: jobDetail(ctx, &detail, spec, s.options.Now())}, nil
}

func (s *Server) listJobPods(ctx context.Context, in *JobRef) (*jobPodsOutput, error) {
	detail, err := s.readJobDetail(ctx, *in)
	if err != nil {
		return nil, err
	}
	out := &jobPodsOutput{}
	out.Body.Total, out.Body.Items = len(detail.Pods), orEmpty(detail.Pods)
	return out, nil
}

func (s *Server) listJobEvents(ctx context.Context, in *jobEventsInput) (*jobEventsOutput, error) {
	detail, err := s.readJobDetail(ctx, in.JobRef)
	if err != nil {
		return nil, err
	}
	events := jobEvents(detail.Events, s.options.Now())
	slices.SortStableFunc(events, func(a, b JobEvent) int { return strings.Compare(eventKey(a), eventKey(b)) })
	page, err := cutPage(in.Paging, events, eventKey, func(e JobEvent) JobEvent { return e })
	if err != nil {
		return nil, err
	}
	return &jobEventsOutput{Body: JobEventList(page)}, nil
}

// eventKey orders events by time.
func eventKey(e JobEvent) string {
	return strings.Join([]string{e.LastSeen.UTC().Format("2006-01-02T15:04:05.000000000"), e.Object, e.Reason, e.Message}, "\x00")
}

func (s *Server) getJobSpec(ctx context.Context, in *JobRef) (*jobSpecOutput, error) {
	detail, err := s.readJobDetail(ctx, *in)
	if err != nil {
		return nil, err
	}
	if detail.Submitted == "" {
		return nil, notFoundErrorf("job %q was not made by gpuctl, so the YAML it was made from is not known", detail.Name)
	}
	return &jobSpecOutput{ETagged: jobETag(&detail), Body: JobSpec{
		JobID: detail.Name, Namespace: detail.Namespace, YAMLContent: detail.Submitted,
	}}, nil
}

func jobETag(detail *inventory.JobDetail) ETagged {
	if detail.Meta == nil { // only the pods are left
		return ETagged{}
	}
	return ETagged{objectETag(detail.Meta)}
}
