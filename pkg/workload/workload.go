// Package workload is gpuctl's YAML: its types, its strict parser and its defaults.
//
// [Parse] reads a file of one or more documents of the kinds training, inference, notebook, compute, pool and quota. It reports all problems of the
// file at once, each with its line and column. The meaning of each field is defined once, in the tables of fields_job.go, fields_pool.go and
// fields_quota.go: they drive decoding, the suggestions for misspelt keys and the reference in docs/yaml.md.
//
// The package is pure: it reads no file, no clock and no cluster.
package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Kind is the kind of a document.
type Kind string

// The kinds of documents. The word resource is read as an alias of pool.
const (
	KindTraining  Kind = "training"
	KindInference Kind = "inference"
	KindNotebook  Kind = "notebook"
	KindCompute   Kind = "compute"
	KindPool      Kind = "pool"
	KindQuota     Kind = "quota"
	// KindReservation reserves nodes for some namespaces for a time.
	KindReservation Kind = "reservation"
)

// aliasOfPool is another word for [KindPool].
const aliasOfPool = "resource"

// Kinds lists every kind, in the order in which documentation shows them.
var Kinds = []Kind{KindTraining, KindInference, KindNotebook, KindCompute, KindPool, KindQuota, KindReservation}

// IsGang reports whether the job's pods are members of a gang: they are placed at once or not at all.
func (j *Job) IsGang() bool {
	return j.Resources.Nodes > 1
}

// IsJob reports whether documents of the kind describe a job, which runs in pods.
func (k Kind) IsJob() bool {
	return k == KindTraining || k.IsService()
}

// IsService reports whether jobs of the kind run until they are deleted, and may be reached over the network.
func (k Kind) IsService() bool {
	return k == KindInference || k == KindNotebook || k == KindCompute
}

// Priority orders the jobs that wait for GPUs. Only high ones preempt others.
type Priority string

// The priorities of jobs.
const (
	PriorityHigh   Priority = "high"
	PriorityMedium Priority = "medium"
	PriorityLow    Priority = "low"
)

// Document is one document of a file. Exactly one of Job, Pool, Quota and Reservation is set.
type Document struct {
	Kind Kind
	// Name is the name of the job, the pool, the quota or the reservation.
	Name string
	// Namespace is job.namespace; empty if the document has none.
	Namespace string
	Job       *Job
	Pool      *Pool
	Quota     *Quota
	// Reservation is that of kind reservation.
	Reservation *Reservation
	// Source is the document's text as submitted.
	Source string
	// Filled records the fields that the job's preset has filled, as YAML on one line such as {gpu: 2, cpu: 8}; "" if unknown. Package jobplan writes
	// and reads it.
	Filled string
	// PoolShare is the gpu-share that the job's pool filled in, such as 8Gi; "" if it did not.
	PoolShare string
	// Upload is the folder that job.workdir names, once it is packed or in the cluster; nil before that.
	Upload *Upload
	// Line is the first line of the document's content in the file, from 1.
	Line int
}

// GeneratesName reports whether the document has only a name prefix: each submission creates another job.
func (d Document) GeneratesName() bool { return d.Job != nil && d.Job.GenerateName != "" }

// Job is a training, inference, notebook or compute document with its defaults filled in.
type Job struct {
	Kind Kind
	// Name is the name of the job. If the document has only a prefix, GenerateName, it ends in [PlaceholderSuffix] until the job is submitted.
	Name         string
	GenerateName string
	Namespace    string
	Description  string
	Priority     Priority
	// Queue is the LocalQueue of Kueue that the job waits in; "" for none.
	Queue string
	// TTL is how long a finished training job is kept; nil keeps it until it is deleted.
	TTL *time.Duration
	// Retries is how often the pod of a training job is restarted after a failure.
	Retries int32
	// DependsOn are the jobs of the namespace that must end before it starts.
	DependsOn []string
	// After says how they have to end; empty is [AfterOK].
	After After
	// Workdir is the folder of the submitting machine that is sent with the job; "" for none.
	Workdir string
	// Notify configures notifications about the job; nil sends none.
	Notify *Notify
	// Array is set for a job that runs its program many times; nil runs it once.
	Array       *Array
	Environment Environment
	Resources   Resources
	// Service is nil for training jobs, and set for all others.
	Service *Service
	Storage Storage
}

// After says how the dependencies of a job have to end.
type After string

const (
	// AfterOK starts the job when all dependencies have succeeded.
	AfterOK After = names.AfterOK
	// AfterAny starts the job when all dependencies have ended, in whichever way.
	AfterAny After = names.AfterAny
)

// Array is a job that runs its program once for each of many tasks, numbered from 0.
type Array struct {
	// Tasks is the number of tasks, at least 1.
	Tasks int32
	// AtOnce is the maximum number of concurrent tasks, from 1 to Tasks.
	AtOnce int32
}

// Distributed says how the members of a job on several nodes find each other.
type Distributed string

const (
	// DistributedAuto sets the variables by which launchers such as torchrun find the other nodes.
	DistributedAuto Distributed = "auto"
	// DistributedNone sets none.
	DistributedNone Distributed = "none"
)

// Environment is what runs: an image, a command and its variables.
type Environment struct {
	Image string
	// ImagePullPolicy is empty if Kubernetes decides.
	ImagePullPolicy corev1.PullPolicy
	ImagePullSecret string
	Command         []string
	Args            []string
	Env             []corev1.EnvVar
	// Stdin lets users attach and type to the program; TTY gives it a terminal for that.
	Stdin, TTY bool
	// Distributed has no effect for jobs on one node.
	Distributed Distributed
}

// PlaceholderSuffix stands for the random characters that are appended to a name prefix at submission.
const PlaceholderSuffix = "xxxxx"

// Defaults of optional fields.
const (
	defaultRetries        = 3
	defaultInferencePort  = 8000
	defaultNotebookPort   = 8888
	defaultStartupTimeout = 30 * time.Minute
)

// newJob returns a job of the kind with all defaults that depend on nothing else.
func newJob(kind Kind) *Job {
	job := &Job{
		Kind:      kind,
		Priority:  PriorityMedium,
		Retries:   defaultRetries,
		Resources: Resources{Pool: names.DefaultPool, Nodes: 1},

		Environment: Environment{Distributed: DistributedAuto},
	}
	if !kind.IsService() {
		return job
	}
	job.Service = &Service{Replicas: 1, Type: corev1.ServiceTypeNodePort, StartupTimeout: defaultStartupTimeout}
	switch kind {
	case KindInference:
		job.Service.Type = corev1.ServiceTypeClusterIP
		job.Service.Port = defaultInferencePort
	case KindNotebook:
		job.Service.Port = defaultNotebookPort
	}
	return job
}

// fillDerived sets the defaults that depend on other fields.
func (j *Job) fillDerived() {
	if j.Service != nil && j.Service.TargetPort == 0 {
		j.Service.TargetPort = j.Service.Port
	}
	if j.Notify != nil && len(j.Notify.On) == 0 {
		j.Notify.On = notifyDefault
	}
	for dir := range j.Storage.Dirs() {
		dir.fillDerived()
	}
}
