package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// YAMLBody is a request with a YAML document, which may also be the body itself; see [documentBody].
type YAMLBody struct {
	YAMLContent string `json:"yamlContent" minLength:"1" doc:"A document as gpuctl reads it. The document itself may be the body instead, as application/yaml" example:"kind: training\njob: {name: hello}\nenvironment: {image: busybox}\nresources: {gpu: 1, cpu: 1, memory: 1Gi}\n"`
	DryRun      bool   `json:"dryRun,omitempty" doc:"Let the API server check everything, and change nothing"`
}

// Idempotent lets a client repeat a request safely. It is exported because huma reads only exported embedded types.
type Idempotent struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"A text that is new for each request. Sent again with it, the request is not carried out again: the first answer is given once more"`
}

type createJobInput struct {
	Idempotent
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of a document that names none; default without it"`
	Body      YAMLBody
}

// JobCreated describes a submitted job.
type JobCreated struct {
	JobID     string    `json:"jobId"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Kind      string    `json:"kind"`
	Status    string    `json:"status" enum:"pending,valid" doc:"valid after a dry run"`
	CreatedAt time.Time `json:"createdAt"`
	Message   string    `json:"message"`
	Warnings  []string  `json:"warnings,omitempty" doc:"What this cluster cannot fulfil as written, or could never fulfil with the nodes it has"`
}

type createJobOutput struct {
	Status   int
	Location string `header:"Location"`
	Body     JobCreated
}

type batchInput struct {
	Idempotent
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" doc:"The namespace of documents that name none; default without it"`
	Body      struct {
		YAMLContents []string `json:"yamlContents" minItems:"1" maxItems:"100"`
		DryRun       bool     `json:"dryRun,omitempty"`
	}
}

// BatchResult is the result of each document of a batch.
type BatchResult struct {
	Success []BatchSuccess `json:"success"`
	Failed  []BatchFailure `json:"failed"`
}

// BatchSuccess is a document of a batch that was submitted.
type BatchSuccess struct {
	JobCreated
	Index      int `json:"index" doc:"The place in yamlContents, from 0"`
	HTTPStatus int `json:"httpStatus" doc:"The status that this document alone would be answered with"`
}

// BatchFailure is a document of a batch that was not submitted.
type BatchFailure struct {
	Index      int      `json:"index" doc:"The place in yamlContents, from 0"`
	HTTPStatus int      `json:"httpStatus" doc:"The status that this document alone would be answered with"`
	Error      string   `json:"error"`
	Code       string   `json:"code"`
	Details    []Detail `json:"details,omitempty"`
}

type batchOutput struct {
	Status int
	Body   BatchResult
}

// Messages of the first gpuctl, which clients compare.
const (
	messageSubmitted = "任务已提交至资源池"
	messageValid     = "校验通过，未提交任务"
	messageDeleting  = "任务删除指令已下发"
)

func (s *Server) createRoutes() {
	registerRoute(s, route{method: http.MethodPost, path: Root + "/jobs", id: "createJob", tag: "jobs", status: http.StatusCreated,
		summary: "Submit a job",
		detail: "The job is created whole or not at all. Its name is taken in its namespace whatever the kind of the job: a second " +
			"request is answered with 409 AlreadyExists. The answer to a dry run is 200.",
		fails:   []int{http.StatusNotFound, http.StatusConflict},
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[JobCreated](s, "The job is valid, and was not created")}}, s.createJob)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/jobs/batch", id: "createJobs", tag: "jobs", status: http.StatusCreated,
		summary: "Submit several jobs, each for itself",
		detail: "201 says that all were submitted, 200 that all are valid in a dry run, and 207 that some are neither: `failed` tells which, and why. " +
			"Every document is in one of the two lists, with the status that it alone would be answered with; the code NotTried is of one for which the " +
			"request had no time left, and nothing was made of it.",
		anyone: true,
		replies: map[int]*huma.Response{
			http.StatusOK:          jsonReply[BatchResult](s, "All are valid, and none was created"),
			http.StatusMultiStatus: jsonReply[BatchResult](s, "Some were not submitted"),
		}}, s.createJobs)
}

func (s *Server) createJob(ctx context.Context, in *createJobInput) (*createJobOutput, error) {
	doc, notes, err := s.parseJob(ctx, in.Body.YAMLContent, noLiveDocument)
	if err != nil {
		return nil, err
	}
	created, err := s.submitJob(ctx, doc, in.Namespace, in.Body.DryRun)
	if err != nil {
		return nil, err
	}
	created.Warnings = append(notes, created.Warnings...)
	out := &createJobOutput{Status: createdStatus(in.Body.DryRun), Body: *created}
	if in.Body.DryRun {
		return out, nil
	}
	out.Location = Root + "/jobs/" + created.JobID + "?namespace=" + created.Namespace
	return out, nil
}

// createdStatus is the status of an answer that has created what was asked for, or would have.
func createdStatus(dryRun bool) int {
	if dryRun {
		return http.StatusOK
	}
	return http.StatusCreated
}

func (s *Server) createJobs(ctx context.Context, in *batchInput) (*batchOutput, error) {
	out := &batchOutput{Status: createdStatus(in.Body.DryRun), Body: BatchResult{Success: []BatchSuccess{}, Failed: []BatchFailure{}}}
	done := out.Status
	jobs, err := s.parseEach(ctx, in.Body.YAMLContents)
	if err != nil {
		return nil, err
	}
	filling := s.newJobFiller(ctx, noLiveDocument)
	failed := runBatch(ctx, len(jobs), func(i int) error {
		created, err := s.createBatchJob(ctx, in, &jobs[i], filling)
		if err == nil {
			out.Body.Success = append(out.Body.Success, BatchSuccess{JobCreated: *created, Index: i, HTTPStatus: done})
		}
		return err
	})
	for _, i := range slices.Sorted(maps.Keys(failed)) {
		out.Status = http.StatusMultiStatus
		out.Body.Failed = append(out.Body.Failed, BatchFailure{
			Index: i, HTTPStatus: failed[i].status, Error: failed[i].Message, Code: failed[i].Code, Details: failed[i].Details,
		})
	}
	return out, nil
}

// createBatchJob submits one job of a batch.
func (s *Server) createBatchJob(ctx context.Context, in *batchInput, job *parsed, filling *jobFiller) (*JobCreated, error) {
	if job.err != nil {
		return nil, job.err
	}
	if err := checkCreateRight(ctx, job.document, in.Namespace); err != nil {
		return nil, err
	}
	filled, notes, err := filling.fillJob(ctx, job.document)
	if err != nil {
		return nil, err
	}
	created, err := s.submitJob(ctx, filled, in.Namespace, in.Body.DryRun)
	if err != nil {
		return nil, err
	}
	created.Warnings = append(notes, created.Warnings...)
	return created, nil
}

// parsed is a document of a batch, or its error.
type parsed struct {
	document document
	err      error
}

// parseEach parses all documents of a batch in one slot, however short they are.
func (s *Server) parseEach(ctx context.Context, contents []string) ([]parsed, error) {
	leave, err := acquireSlot(ctx, s.budgets.computing, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]parsed, len(contents))
	for i, content := range contents {
		docs, _, err := parseYAML(content)
		if err == nil {
			out[i].document, err = onlyDocument(docs, "job", isJob)
		}
		out[i].err = err
	}
	return out, nil
}

// submitJob creates one job, or validates it as a dry run. It returns when lists show the job.
func (s *Server) submitJob(ctx context.Context, doc document, namespace string, dryRun bool) (*JobCreated, error) {
	if err := checkCreateRight(ctx, doc, namespace); err != nil {
		return nil, err
	}
	doc, err := s.resolveJobName(ctx, doc)
	if err != nil {
		return nil, err
	}
	rendered, err := s.renderJob(ctx, doc, namespace)
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	top := rendered.objects[0]
	warnings, err := quotaWarnings(ctx, top)
	if err != nil {
		return nil, err
	}
	created := &JobCreated{
		JobID: doc.Name, Name: doc.Name, Namespace: top.GetNamespace(), Kind: string(doc.Kind),
		Warnings: append(rendered.warnings, warnings...),
		Status:   "pending", CreatedAt: s.options.Now().UTC(), Message: messageSubmitted,
	}
	if dryRun {
		created.Status, created.Message = "valid", messageValid
		unasked, err := writer.DryRun(ctx, rendered.objects)
		for _, sentence := range unasked {
			created.Warnings = append(created.Warnings, sentence.String())
		}
		return created, err
	}
	addAuditNote(ctx, strings.Join([]string{string(doc.Kind), top.GetNamespace(), doc.Name}, "/"))
	if err := writer.Create(ctx, rendered.objects); err != nil {
		return nil, err
	}
	created.CreatedAt = top.GetCreationTimestamp().Time
	s.cache.waitUntilShown(ctx, func(v *view) bool { return v.hasJob(top) })
	return created, nil
}

// resolveJobName returns a document with its final job name. It generates the suffix where the document has only a prefix.
func (s *Server) resolveJobName(ctx context.Context, doc document) (document, error) {
	if !doc.GeneratesName() {
		return doc, nil
	}
	leave, err := s.acquireReadSlot(ctx, doc.Source)
	if err != nil {
		return doc, err
	}
	defer leave()
	return jobplan.WithGeneratedName(doc, rand.String(len(workload.PlaceholderSuffix)))
}

// quotaWarnings warns if the quotas of the namespace leave too little for the job, as far as the caller may read them.
func quotaWarnings(ctx context.Context, top client.Object) ([]string, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	quotas, err := inventory.NewReader(caller.Kubernetes).NamespaceQuotas(ctx, top.GetNamespace())
	if err != nil {
		return nil, err
	}
	if over := quota.FindJobExcess(quotas, top); over != nil {
		return []string{"it " + over.Warning().String()}, nil
	}
	return nil, nil
}

// checkCreateRight checks the right to create a job before any other request to the cluster. Results are cached for some seconds, so a batch asks once.
func checkCreateRight(ctx context.Context, doc document, namespace string) error {
	return checkChangeRight(ctx, "create", cmp.Or(doc.Namespace, namespace, defaultNamespace), jobResource(doc.Kind))
}

// checkChangeRight checks the caller's right to a verb on a resource of a namespace.
func checkChangeRight(ctx context.Context, verb, namespace string, resource access.Resource) error {
	caller, err := callerFrom(ctx)
	if err != nil {
		return err
	}
	return caller.CheckRight(ctx, verb, namespace, resource)
}

// jobResource returns the Kubernetes resource of a job kind.
func jobResource(kind workload.Kind) access.Resource {
	if kind == workload.KindTraining {
		return access.Resource{Group: "batch", Resource: "jobs"}
	}
	return access.Resource{Group: "apps", Resource: "deployments"}
}

// newWriter returns a writer that acts as the caller.
func newWriter(ctx context.Context) (*submit.Client, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	return submit.Connect(caller.Config)
}
